//go:build !wasm

package abijson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// AppendJSON must append what Marshal returns, whatever precedes it, and nothing on
// error.
func TestAppendJSON(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"a value of this package": &abi.GateToolInput{Call: abi.Call{ID: "1", Name: "search", Arguments: `{"q":"é"}`}},
		"one that is long":        &abi.Result{Content: abi.Text(strings.Repeat("long\n", 100<<10))},
		"any other":               map[string]int{"a": 1},
	} {
		want, err := Marshal(v)
		require.NoError(t, err, name)
		for _, before := range [][]byte{nil, []byte("x"), make([]byte, 3, 8<<10)} {
			got, err := AppendJSON(before, v)
			require.NoError(t, err, name)
			require.Equal(t, string(before)+string(want), string(got), name)
		}
	}
	got, err := AppendJSON([]byte("x"), &abi.Result{Extra: []byte(`{`)})
	require.Error(t, err)
	require.Equal(t, "x", string(got))
}
