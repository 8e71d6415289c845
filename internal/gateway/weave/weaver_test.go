package weave

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A notation is a stream whose events are words. What it writes itself is in brackets.
type notation struct{ wire.Stream }

func (notation) Pass(dst []byte, it *wire.Item) []byte { return append(dst, it.Event...) }
func (notation) Drop(*wire.Item)                       {}

func (notation) Text(dst []byte, open *wire.Item, text string) []byte {
	return fmt.Appendf(dst, "[%d %s]", open.Block, text)
}

func (notation) CloseText(dst []byte, open *wire.Item, text string) []byte {
	return fmt.Appendf(dst, "[/%d %s]", open.Block, text)
}

func (notation) AddText(dst []byte, kind, text string) []byte {
	return fmt.Appendf(dst, "[+%s %s]", kind, text)
}

func (notation) AddCall(dst []byte, c *abi.ToolCall) []byte {
	return fmt.Appendf(dst, "[+call %s %s]", c.ID, c.Function.Arguments)
}

func (notation) End(dst []byte, ends []wire.Item, finish string) []byte {
	for _, it := range ends {
		dst = append(dst, it.Event...)
	}
	return fmt.Appendf(dst, "[end %s]", finish)
}

// items parses items from words between spaces. Instead of 0, words can have any block index: (0
// opens a block of text, <0 one of reasoning, !0 the tool call c0; 0=abc is a delta of block 0; )0
// closes it. Other words are start, ping and end.
func items(text string) []wire.Item {
	var out []wire.Item
	for _, word := range strings.Fields(text) {
		it := wire.Item{Event: []byte(word + " ")}
		kinds := map[int]string{}
		switch {
		case word == "ping":
			it.Kind = wire.Ping
		case word == "end":
			it.Kind = wire.End
		case strings.ContainsAny(word[:1], "(<!"):
			kind := map[byte]string{'(': abi.ChunkText, '<': abi.ChunkReasoning, '!': abi.ChunkToolCall}[word[0]]
			it.Kind, it.Block, it.Chunk.Kind = wire.Open, int(word[1]-'0'), kind
			if kind == abi.ChunkToolCall {
				it.Chunk.ID, it.Chunk.Name = "c"+word[1:], "t"
			}
			kinds[it.Block] = kind
		case word[0] == ')':
			it.Kind, it.Block = wire.Close, int(word[1]-'0')
		case len(word) > 1 && word[1] == '=':
			it.Kind, it.Block = wire.Delta, int(word[0]-'0')
			it.Chunk = abi.Chunk{Kind: abi.ChunkText, Text: word[2:]}
			if kindOf(out, it.Block) == abi.ChunkToolCall {
				it.Chunk = abi.Chunk{Kind: abi.ChunkToolCall, Arguments: word[2:]}
			}
			if kindOf(out, it.Block) == abi.ChunkReasoning {
				it.Chunk.Kind = abi.ChunkReasoning
			}
		}
		out = append(out, it)
	}
	return out
}

func kindOf(list []wire.Item, block int) string {
	for _, it := range list {
		if it.Kind == wire.Open && it.Block == block {
			return it.Chunk.Kind
		}
	}
	return ""
}

func txt(s string) abi.Chunk       { return abi.Chunk{Kind: abi.ChunkText, Text: s} }
func reasoning(s string) abi.Chunk { return abi.Chunk{Kind: abi.ChunkReasoning, Text: s} }

func response(reason, content string, calls ...string) *abi.Response {
	m := abi.Message{Role: abi.RoleAssistant, Content: abi.Text(content)}
	for i, args := range calls {
		m.ToolCalls = append(m.ToolCalls, abi.NewToolCall(fmt.Sprint("c", i+1), "t", args))
	}
	if len(calls) > 0 && reason == "" {
		reason = abi.FinishToolCalls
	}
	if reason == "" {
		reason = abi.FinishStop
	}
	return &abi.Response{Message: m, FinishReason: reason}
}

func reasoned(reasoning, content string) *abi.Response {
	res := response("", content)
	res.Message.ReasoningContent = reasoning
	return res
}

func TestWeaver(t *testing.T) {
	const answer = "start (0 0=ab 0=cd )0 !1 1={ 1=} )1 end"
	for name, c := range map[string]struct {
		from   string
		leave  []abi.Chunk // after all of from; nil means the chunks as they were received, one by one
		o      Options
		res    *abi.Response
		denied map[string]string
		live   string // the client's stream before Finish
		want   string // what Finish appends
	}{
		"unchanged": {
			from: answer, res: response("", "abcd", "{}"),
			live: "start (0 0=ab 0=cd )0 ", want: "!1 1={ 1=} )1 end [end tool_calls]",
		},
		"direct": {
			from: answer, res: response("", "abcd", "{}"), o: Options{Direct: true},
			live: "start (0 0=ab 0=cd )0 !1 1={ 1=} )1 ", want: "end [end tool_calls]",
		},
		"held": {
			from: answer, res: response("", "abcd", "{}"), o: Options{Hold: true},
			want: "start (0 0=ab 0=cd )0 !1 1={ 1=} )1 end [end tool_calls]",
		},
		"held and changed after the model": {
			from: answer, res: response("", "xyz", "{}"), o: Options{Hold: true},
			want: "start (0 [0 xyz][/0 xyz]!1 1={ 1=} )1 end [end tool_calls]",
		},
		"other chunks with the same text": {
			from: answer, leave: []abi.Chunk{txt("a"), txt("bcd")}, res: response("", "abcd", "{}"),
			live: "start (0 [0 a][0 b]0=cd )0 ", want: "!1 1={ 1=} )1 end [end tool_calls]",
		},
		"changed text": {
			from: answer, leave: []abi.Chunk{txt("ab"), txt("X")}, res: response("", "abX", "{}"),
			live: "start (0 0=ab [0 X]", want: "[/0 abX]!1 1={ 1=} )1 end [end tool_calls]",
		},
		"text that leaves with the answer": {
			from: answer, leave: []abi.Chunk{txt("ab")}, res: response("", "abcd!", "{}"),
			live: "start (0 0=ab ", want: "[0 cd!][/0 abcd!]!1 1={ 1=} )1 end [end tool_calls]",
		},
		"text removed": {
			from: answer, leave: []abi.Chunk{}, res: response("", "", "{}"),
			live: "start ", want: "!1 1={ 1=} )1 end [end tool_calls]",
		},
		"reasoning removed": {
			from: "<0 0=r )0 (1 1=ab )1 end", leave: []abi.Chunk{txt("ab")}, res: response("", "ab"),
			want: "(1 1=ab )1 end [end stop]",
		},
		"reasoning changed": {
			from: "<0 0=r )0 (1 1=ab )1 end", leave: []abi.Chunk{reasoning("R"), txt("ab")},
			res:  reasoned("R", "ab"),
			live: "<0 [0 R]", want: "[/0 R](1 1=ab )1 end [end stop]",
		},
		"denied alone": {
			from: answer, res: response("", "abcd", "{}"), denied: map[string]string{"c1": "no"},
			live: "start (0 0=ab 0=cd )0 ", want: "[+text no]end [end stop]",
		},
		"denied beside another": {
			from: "!1 1={} )1 !2 2={} )2 end", res: response("", "", "{}", "{}"), denied: map[string]string{"c1": "no"},
			want: "[+text no]!2 2={} )2 end [end tool_calls]",
		},
		"call changed, removed and added": {
			from: "!1 1={} )1 !4 4={} )4 end", res: response("", "", `{"a":1}`, "{}"),
			want: `[+call c1 {"a":1}][+call c2 {}]end [end tool_calls]`,
		},
		"text after a call changed": {
			from: "(0 0=a )0 !1 1={} )1 (2 2=b )2 (3 3=c )3 end", res: response("", "aBc", "{}"),
			live: "(0 0=a )0 ", want: "!1 1={} )1 (2 [2 B][/2 B](3 3=c )3 end [end tool_calls]",
		},
		"ping while a call waits": {
			from: "!1 1={} ping )1 end", res: response("", "", "{}"),
			live: "ping ", want: "!1 1={} )1 end [end tool_calls]",
		},
		"a module answered": {
			res: response("", "hello", "{}"), want: "[+text hello][+call c1 {}][end tool_calls]",
		},
		"an empty block of the upstream": {
			from: "(0 )0 !1 1={} )1 end", res: response("", "", "{}"),
			live: "(0 )0 ", want: "!1 1={} )1 end [end tool_calls]",
		},
		"two blocks of text": {
			from: "(0 0=a )0 (1 1=b )1 end", res: response("", "ab"),
			live: "(0 0=a )0 (1 1=b )1 ", want: "end [end stop]",
		},
		"two blocks of text, the first changed": {
			from: "(0 0=a )0 (1 1=b )1 end", leave: []abi.Chunk{txt("A"), txt("b")}, res: response("", "Ab"),
			live: "(0 [0 A][0 b]", want: "[/0 Ab]end [end stop]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := New(notation{}, c.o)
			var live []byte
			for _, it := range items(c.from) {
				var chunks []abi.Chunk
				var err error
				live, chunks, err = w.Receive(live, []wire.Item{it})
				require.NoError(t, err)
				if c.leave == nil {
					live = w.Leave(live, chunks)
				}
			}
			live = w.Leave(live, c.leave)
			require.Equal(t, c.live, string(live))
			rest, err := w.Finish(nil, c.res, c.denied)
			require.NoError(t, err)
			require.Equal(t, c.want, string(rest))
		})
	}
}

func TestChangedAfterDelivery(t *testing.T) {
	w := New(notation{}, Options{})
	_, chunks, err := w.Receive(nil, items("(0 0=ab )0 end"))
	require.NoError(t, err)
	w.Leave(nil, chunks)
	_, err = w.Finish(nil, response("", "xb"), nil)
	require.ErrorContains(t, err, "set hold: true")
}

func TestHeldIsLimited(t *testing.T) {
	w := New(notation{}, Options{MaxHeld: 10})
	_, _, err := w.Receive(nil, items("!1 1=12345678"))
	require.ErrorContains(t, err, "more than 10 bytes")
}

// TestEmptyDeltas checks that modules get no chunk for an event that adds nothing to a block.
func TestEmptyDeltas(t *testing.T) {
	w := New(notation{}, Options{})
	_, chunks, err := w.Receive(nil, items("(0 0= 0=a 0= )0"))
	require.NoError(t, err)
	require.Equal(t, []abi.Chunk{txt("a")}, chunks)
	require.Equal(t, "(0 0= 0=a 0= )0 ", string(w.Leave(nil, chunks)))
}
