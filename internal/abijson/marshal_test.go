//go:build !wasm

package abijson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// TestAppendJSON checks that AppendJSON appends what Marshal returns, whatever precedes it, and
// nothing on error.
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
	for _, v := range []any{
		&abi.Result{Extra: []byte(`{`)},
		map[string]any{"a": 1, "b": func() {}},
	} {
		got, err := AppendJSON([]byte("x"), v)
		require.Error(t, err)
		require.Equal(t, "x", string(got), "%T", v)
	}
}

// TestMarshalOfHostTypes checks that a type of the host that contains types of package abi is
// encoded as their methods encode it.
func TestMarshalOfHostTypes(t *testing.T) {
	t.Parallel()
	part := abi.Part{Type: abi.PartText, Text: "<&>", Unknown: abi.Fields{{Name: "x", Value: abi.JSON("1")}}}
	call := abi.NewToolCall("c1", "t", `{"a":"b\n"}`)
	v := &struct {
		Messages []abi.Message        `json:"messages"`
		Content  abi.Content          `json:"content"`
		Chunks   []abi.Chunk          `json:"chunks,omitempty"`
		Patch    *abi.ToolsPatch      `json:"patch"`
		None     *abi.Message         `json:"none"`
		ByName   map[string]abi.Chunk `json:"by_name"`
		Any      any                  `json:"any"`
	}{
		Messages: []abi.Message{abi.User("a"), {Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{call}}, {}},
		Content:  abi.Parts(part),
		Chunks:   []abi.Chunk{{Kind: abi.ChunkText, Text: "t"}, {Kind: abi.ChunkToolCall, ID: "c"}, {}},
		Patch:    &abi.ToolsPatch{Remove: []string{"t"}},
		ByName:   map[string]abi.Chunk{"a": {Kind: abi.ChunkReasoning, Text: "r"}},
		Any:      part,
	}
	want, err := jsoncodec.AppendValue(nil, v)
	require.NoError(t, err)
	got, err := Marshal(v)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// TestMarshalOfHostTypesAllocates checks that reflection does not visit the fields of package abi's
// types inside a host's type. The number of those fields must not change the number of allocations.
func TestMarshalOfHostTypesAllocates(t *testing.T) {
	tool := abi.Tool{Name: "t", Description: "d", Parameters: abi.JSON(`{"type":"object"}`)}
	message := abi.User("a")
	v := &struct {
		Tools   []abi.Tool   `json:"tools"`
		Result  abi.Result   `json:"result"`
		Message *abi.Message `json:"message"`
		Any     any          `json:"any"`
	}{[]abi.Tool{tool, tool, tool, tool}, abi.Result{Content: abi.Text("r")}, &message, &tool}
	allocations := func() float64 {
		return testing.AllocsPerRun(100, func() {
			b, err := AppendJSON(nil, v)
			require.NoError(t, err)
			require.NotEmpty(t, b)
		})
	}
	few := allocations()
	require.LessOrEqual(t, few, 8.)
	for range 60 {
		v.Tools = append(v.Tools, tool)
	}
	require.LessOrEqual(t, allocations(), few+8, "growing the buffer allocates, tools do not")
}
