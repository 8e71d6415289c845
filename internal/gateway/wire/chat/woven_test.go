package chat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/weave"
)

// FuzzWoven passes a stream through a weaver whose chunks leave the chain late. It checks that a stream
// keeps its bytes if no call is denied, and otherwise has all text and the other calls.
func FuzzWoven(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 6, 7, 2, 0}, uint64(5), uint8(0), false)
	f.Add([]byte{0x01, 0x10, 0x12, 0x13, 0x16, 0x17, 0x80}, uint64(1), uint8(2), false)
	f.Add([]byte{0x10, 0x12, 0x12, 0x12, 0x90}, uint64(0), uint8(5), true)
	f.Fuzz(func(t *testing.T, program []byte, late uint64, deny uint8, hold bool) {
		s := &stream{model: "m"}
		w := weave.New(s, weave.Options{Hold: hold})
		events := streamOf(program)
		var out []byte
		var waiting []abi.Chunk
		for i, event := range events {
			items, err := s.Decode([]byte(event))
			require.NoError(t, err)
			var chunks []abi.Chunk
			out, chunks, err = w.Receive(out, items)
			require.NoError(t, err)
			waiting = append(waiting, chunks...)
			if late>>(i%64)&1 == 0 {
				out, waiting = w.Leave(out, waiting), nil
			}
		}
		out = w.Leave(out, waiting)
		res := s.Response()
		want := *res
		want.Message.ToolCalls = nil
		denied := map[string]string{}
		for i, c := range res.Message.ToolCalls {
			if deny>>(i%8)&1 == 1 {
				denied[c.ID] = "denied"
				continue
			}
			want.Message.ToolCalls = append(want.Message.ToolCalls, c)
		}
		out, err := w.Finish(out, res, denied)
		require.NoError(t, err)
		if len(denied) == 0 {
			require.Equal(t, strings.Join(events, ""), string(out))
			return
		}
		got := responseOf(t, string(out))
		require.Equal(t, want.Message.ToolCalls, got.Message.ToolCalls)
		require.Equal(t, want.Message.ReasoningContent, got.Message.ReasoningContent)
		text := got.Message.Content.String()
		require.Equal(t, len(denied), strings.Count(text, "denied"))
		text = strings.NewReplacer("denied", "", "\n\n", "").Replace(text)
		require.Equal(t, want.Message.Content.String(), text)
		if len(want.Message.ToolCalls) == 0 {
			require.Equal(t, abi.FinishStop, got.FinishReason)
		}
	})
}
