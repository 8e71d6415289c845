package extism

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/abitable"
)

// TestUserFunctions checks that plug-ins can make each host call of the ABI, except those for which
// Extism has functions of its own.
func TestUserFunctions(t *testing.T) {
	t.Parallel()
	want := map[string]bool{} // the names, and whether there is no argument
	for _, row := range abitable.Imports() {
		if row.Name != "read" && row.Name != "write" && row.Name != "log" {
			want[row.Name] = row.Params == ""
		}
	}
	got := map[string]bool{}
	for _, row := range userFunctions() {
		got[row.name] = row.bare
	}
	require.Equal(t, want, got)
}
