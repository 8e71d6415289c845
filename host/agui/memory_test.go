package agui

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestEncoderIsBounded checks that an encoder limits the stored messages of a long run, and drops
// inner runs when they end.
func TestEncoderIsBounded(t *testing.T) {
	t.Parallel()
	e := NewEncoder(Options{Messages: []json.RawMessage{}}).(*encoder)
	long := strings.Repeat("x", 1<<20)
	kept := func() (n int) {
		for _, b := range e.messages {
			n += len(b)
		}
		return n
	}
	for i := range 16 {
		m := abi.Assistant(long)
		e.Encode(abi.Event{Type: abi.EventMessage, Message: &m})
		require.LessOrEqual(t, kept(), maxMessageBytes)
		run := fmt.Sprint("inner", i)
		e.Encode(abi.Event{Type: abi.EventChild, Event: &abi.Event{Type: abi.EventRunStarted, Run: run}})
		e.Encode(
			abi.Event{Type: abi.EventChild, Event: &abi.Event{Type: abi.EventRunFinished, Run: run, FinishReason: abi.RunStop}},
		)
	}
	require.Len(t, e.lanes, 1)
	chunk := abi.Chunk{Kind: abi.ChunkText, Text: "secret"}
	e.Encode(abi.Event{Type: abi.EventChunk, Chunk: &chunk})
	m := abi.Assistant("public")
	var types []string
	for _, x := range e.Encode(abi.Event{Type: abi.EventMessage, Message: &m, Replaced: true}) {
		types = append(types, string(x.JSON))
	}
	require.Contains(t, strings.Join(types, "\n"), `"message_replaced"`, "clients get the message that changed")
}
