package abi_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestUnmarshalIsStrict checks that the types of this package that implement json.Unmarshaler
// reject JSON that a host rejects in the answers of modules.
func TestUnmarshalIsStrict(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"duplicate key":         `{"type":"text","text":"a","text":"b"}`,
		"duplicate unknown key": `{"type":"text","x":1,"x":2}`,
		"depth":                 `{"type":"text","x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		"long number":           `{"type":"text","x":` + strings.Repeat("1", 100) + `}`,
		"half a surrogate":      `{"type":"text","text":"\ud800"}`,
		"invalid UTF-8":         "{\"type\":\"text\",\"text\":\"\xff\"}",
	} {
		var part abi.Part
		require.Error(t, part.UnmarshalJSON([]byte(text)), name)
		var content abi.Content
		require.Error(t, json.Unmarshal([]byte("["+text+"]"), &content), name)
	}
}

// TestUnmarshalCopies checks that decoded values do not share memory with the text, because a short
// string would then keep all of the text in memory.
func TestUnmarshalCopies(t *testing.T) {
	t.Parallel()
	text := []byte(
		`{"role":"user","content":[{"type":"text","text":"a\nb","k\n":1,"k":{"z":2}}],"name":"n","extra":{"e":"f"},"tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
	)
	var m abi.Message
	require.NoError(t, m.UnmarshalJSON(text))
	before, err := json.Marshal(m)
	require.NoError(t, err)
	copy(text, bytes.Repeat([]byte("?"), len(text)))
	after, err := json.Marshal(m)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// TestUnmarshalOfEscapes checks that decoding takes memory in proportion to the text, even if many strings have
// escapes.
func TestUnmarshalOfEscapes(t *testing.T) {
	tools := make([]abi.Tool, 4000)
	for i := range tools {
		tools[i] = abi.Tool{Name: "t", Description: "a\nb"}
	}
	text, err := json.Marshal(tools)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var patch abi.ToolsPatch
	require.NoError(t, patch.UnmarshalJSON(text))
	runtime.ReadMemStats(&after)
	require.Equal(t, "a\nb", patch.Replace[3999].Description)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100*len(text)))
}
