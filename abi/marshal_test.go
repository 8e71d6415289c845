//go:build !wasm

package abi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// AppendJSON must append what Marshal returns, whatever precedes it, and nothing on
// error.
func TestAppendJSON(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"a value of this package": &GateToolInput{Call: Call{ID: "1", Name: "search", Arguments: `{"q":"é"}`}},
		"one that is long":        &Result{Content: Text(strings.Repeat("long\n", 100<<10))},
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
	got, err := AppendJSON([]byte("x"), &Result{Extra: []byte(`{`)})
	require.Error(t, err)
	require.Equal(t, "x", string(got))
}
