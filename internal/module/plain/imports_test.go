package plain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/abitable"
)

// TestImplementations checks that the host implements exactly the imports in the ABI's table.
func TestImplementations(t *testing.T) {
	t.Parallel()
	for _, row := range abitable.Imports() {
		f, ok := implementations[row.Name]
		require.True(t, ok, row.Name)
		require.NotEqual(t, f.do == nil, f.raw == nil, "%s needs one implementation", row.Name)
	}
	require.Len(t, implementations, len(abitable.Imports()))
}
