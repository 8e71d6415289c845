package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotation(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"user: hi", "assistant: text [t#1] [u#2 {\"x\":1}]", "assistant: [t#1]", "tool#1: a\\nb", "system: s", "assistant:", `user: a \\n b`} {
		m, err := ParseMessage(line)
		require.NoError(t, err)
		require.Equal(t, line, FormatMessage(m))
	}
	_, err := ParseMessage("nobody: hi")
	require.Error(t, err)
}
