package names_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "x", true},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a*c", "ac", true},
		{"a*a", "a", false},
		{"a*b*c", "a_b_b_c", true},
		{"a*b*c", "a_c_b", false},
		{"**", "x", true},
	} {
		require.Equal(t, c.want, names.Match([]string{"no", c.pattern}, c.name), "%q %q", c.pattern, c.name)
	}
}
