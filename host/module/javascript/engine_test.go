package javascript

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/sandbox/wasm"
)

func TestLink(t *testing.T) {
	b, err := link()
	require.NoError(t, err)
	m, err := wasm.Decode(b, wasm.DefaultLimits())
	require.NoError(t, err)
	require.Empty(t, m.ResetObstacles())
	for _, imp := range m.Imports {
		t.Log(imp.Module, imp.Name)
	}
	for _, imp := range m.Exports {
		t.Log(imp.Name)
	}
}
