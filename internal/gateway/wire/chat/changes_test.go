package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// FuzzChanges makes a stream and changes of its blocks. It checks that the client receives the blocks
// as they were passed and changed, and nothing of those that were dropped or denied.
func FuzzChanges(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 6, 7, 2, 0}, []byte{0, 1, 2, 3})
	f.Add([]byte{0x01, 0x10, 0x12, 0x13, 0x16, 0x17, 0x80}, []byte{0, 3, 1})
	f.Add([]byte{0x10, 0x12, 0x12, 0x12, 0x90}, []byte{0, 0, 3, 0})
	f.Fuzz(func(t *testing.T, program, changes []byte) {
		c := &changer{s: &stream{model: "m"}, changes: append(changes, pass)}
		for _, event := range streamOf(program) {
			items, err := c.s.Decode([]byte(event))
			require.NoError(t, err, event)
			for i := range items {
				c.item(&items[i])
			}
		}
		c.out = c.s.End(c.out, c.ends, "")
		if c.text.Len() > 0 {
			c.want.Content = abi.Text(c.text.String())
		}
		c.want.Role = abi.RoleAssistant
		got := responseOf(t, string(c.out))
		require.Equal(t, c.want, got.Message)
		want := abi.FinishStop
		if len(c.want.ToolCalls) > 0 {
			want = abi.FinishToolCalls
		}
		require.Equal(t, want, got.FinishReason)
	})
}

// The changes of a block.
const (
	pass byte = iota
	change
	drop
	deny
)

// changedText is the text of changed blocks of all kinds.
const changedText = `{"input":"new"}`

// A changer passes and changes blocks as the weaver does, and records the blocks that the client must receive.
type changer struct {
	s       *stream
	changes []byte // the change of each block; a short list is repeated
	out     []byte
	open    wire.Item
	ends    []wire.Item
	want    abi.Message
	text    strings.Builder
	denied  bool // the text ends with the text of a denied call
}

func (c *changer) item(it *wire.Item) {
	verdict := pass
	switch it.Kind {
	case wire.End:
		c.ends = append(c.ends, *it)
		return
	case wire.Open, wire.Delta, wire.Close:
		verdict = c.changes[it.Block%len(c.changes)] % 4
	}
	if it.Kind == wire.Open {
		c.open = *it
	}
	if verdict == pass {
		c.out = c.s.Pass(c.out, it)
	}
	if it.Kind != wire.Close {
		return
	}
	switch verdict {
	case change:
		c.out = c.s.Text(c.out, &c.open, changedText[:4])
		c.out = c.s.Text(c.out, &c.open, changedText[4:])
		c.out = c.s.CloseText(c.out, &c.open, changedText)
	case drop:
		c.s.Drop(&c.open)
		return
	case deny:
		c.s.Drop(&c.open)
		c.out = c.s.AddText(c.out, abi.ChunkText, "denied")
	}
	c.note(c.s.blocks[it.Block], verdict)
}

// note adds a block to the blocks that the client must receive.
func (c *changer) note(b *block, verdict byte) {
	text := "old"
	switch {
	case verdict == change:
		text = changedText
	case b.call != nil:
		text = b.call.arguments.String()
	}
	switch {
	case verdict == deny:
		if c.text.Len() > 0 {
			c.text.WriteString("\n\n")
		}
		c.text.WriteString("denied")
		c.denied = true
	case b.kind == abi.ChunkText:
		if c.denied {
			c.text.WriteString("\n\n")
		}
		c.denied = false
		c.text.WriteString(text)
	case b.kind == abi.ChunkReasoning:
		c.want.ReasoningContent += text
	default:
		call := abi.NewToolCall(b.call.id, b.call.name, text)
		if b.call.custom {
			call.Type = typeCustom
		}
		c.want.ToolCalls = append(c.want.ToolCalls, call)
	}
}

// streamOf makes a stream. Each byte is a block: its kind, whether it has two deltas, and whether it
// shares the event before it.
func streamOf(program []byte) []string {
	w := &streamWriter{last: -1}
	for _, b := range program {
		w.block(int(b%4), b&4 != 0, b&0x10 != 0)
	}
	w.finish(len(program) > 0 && program[len(program)-1]&0x80 != 0)
	return w.events
}

type streamWriter struct {
	events    []string
	reasoning string // the reasoning, content and calls are those of the current event
	content   string
	calls     []string
	last      int // the kind of the block before
	n         int // calls so far
}

func (w *streamWriter) block(kind int, two, join bool) {
	if kind < 2 && kind == w.last {
		return // the delta would continue the last block
	}
	w.last = kind
	if !join || kind == 0 && w.content+strings.Join(w.calls, "") != "" ||
		kind == 1 && w.reasoning+w.content+strings.Join(w.calls, "") != "" {
		w.event("null")
	}
	first, second := "old", ""
	if two {
		first, second = "o", "ld"
	}
	switch kind {
	case 0:
		w.content = first
		if two {
			w.event("null")
			w.content = second
		}
	case 1:
		w.reasoning = first
		if two {
			w.event("null")
			w.reasoning = second
		}
	case 2:
		w.call(`"function":{"name":"f","arguments":"%s"}`, first, `"function":{"arguments":"%s"}`, second)
	case 3:
		w.call(`"custom":{"name":"g","input":"%s"}`, first, `"custom":{"input":"%s"}`, second)
	}
}

func (w *streamWriter) call(start, first, more, second string) {
	w.calls = append(w.calls, fmt.Sprintf(`{"index":%d,"id":"c%d",`+start+`}`, w.n, w.n, first))
	if second != "" {
		w.calls = append(w.calls, fmt.Sprintf(`{"index":%d,`+more+`}`, w.n, second))
	}
	w.n++
}

// event ends the current event.
func (w *streamWriter) event(finish string) {
	var fields []string
	if w.reasoning != "" {
		fields = append(fields, `"reasoning_content":"`+w.reasoning+`"`)
	}
	if w.content != "" {
		fields = append(fields, `"content":"`+w.content+`"`)
	}
	if len(w.calls) > 0 {
		fields = append(fields, `"tool_calls":[`+strings.Join(w.calls, ",")+`]`)
	}
	if len(w.events) == 0 {
		fields = append(fields, `"role":"assistant"`)
	}
	w.events = append(w.events, `data: {"id":"x","choices":[{"index":0,"delta":{`+strings.Join(fields, ",")+
		`},"finish_reason":`+finish+"}]}\n\n")
	w.reasoning, w.content, w.calls = "", "", nil
}

// finish ends the stream, in the current event or in one of its own.
func (w *streamWriter) finish(join bool) {
	if !join {
		w.event("null")
	}
	reason := `"stop"`
	if w.n > 0 {
		reason = `"tool_calls"`
	}
	w.event(reason)
	w.events = append(w.events, "data: [DONE]\n\n")
}
