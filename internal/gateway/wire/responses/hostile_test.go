package responses

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// TestFraming checks that a stream keeps its framing, changed or not.
func TestFraming(t *testing.T) {
	const in = ": hello\n\n" +
		"event:response.output_item.added\r\ndata:{\"type\":\"response.output_item.added\",\r\ndata:\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"m\",\"content\":[]}}\r\nid: 7\r\n\r\n" +
		": ping\n\n" +
		"data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"Hi\"}\n\n" +
		"data: {\"type\":\"response.future\",\"x\":1}\n\n" +
		"data:{\"type\":\"response.output_item.done\",\ndata:\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"m\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hi\"}]}}\n\n" +
		"event: response.completed\ndata: {\"response\":{\"status\":\"completed\"}}\n\n" +
		"data: [DONE]\n\n"
	s := Protocol{}.NewStream("m")
	out, err := play(s, []byte(in), readPlan(t, ""))
	require.NoError(t, err)
	require.Equal(t, in, string(out))
	require.True(t, s.Complete())
	require.Equal(t, abi.Text("Hi"), s.Response().Message.Content)

	out, err = play(Protocol{}.NewStream("m"), []byte(in), readPlan(t, "text 0 Ho\n"))
	require.NoError(t, err)
	require.Contains(t, string(out), "data: {\"type\":\"response.output_item.done\", \"output_index\":0,\"item\":"+
		"{\"type\":\"message\",\"id\":\"m\",\"content\":[{\"type\":\"output_text\",\"text\":\"Ho\"}]}}\n\n")
	require.NotContains(t, string(out), "Hi")
}

// TestCutStream checks that a stream that ends early is not taken for a whole answer.
func TestCutStream(t *testing.T) {
	s := Protocol{}.NewStream("m")
	out, err := play(
		s,
		framed(
			[]byte(
				`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"a","arguments":""}}
{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\""}`,
			),
		),
		readPlan(t, ""),
	)
	require.NoError(t, err)
	require.False(t, s.Complete())
	require.NotContains(t, string(out), "output_item.done")
	require.Equal(t, `{"a"`, s.Response().Message.ToolCalls[0].Function.Arguments)
	failed := string(s.Error(nil, wire.Errorf(wire.CodeUpstream, "cut")))
	require.Contains(t, failed, "event: response.failed\n")
	require.Contains(t, failed, `"error":{"code":"server_error","message":"cut"}`)
	failed = string(s.Error(nil, wire.Errorf(wire.CodeDenied, "no")))
	require.Contains(t, failed, `"code":"invalid_prompt"`, "Codex does not retry this code")
}

// TestStreamsThatDisagree checks that an upstream cannot show modules other text or another call than the client
// gets.
func TestStreamsThatDisagree(t *testing.T) {
	const (
		begin = `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"ls","arguments":""}}` + "\n"
		delta = `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}` + "\n"
		end   = `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c","name":"ls","arguments":"{}"}}` + "\n"
		text  = `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}` + "\n" +
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}` + "\n"
		final = `{"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","call_id":"c","name":"ls","arguments":"{}"}]}}` + "\n"
	)
	other := func(s, old, new string) string { return strings.Replace(s, old, new, 1) }
	for name, in := range map[string]string{
		"arguments at the end of the item":    begin + delta + other(end, `"{}"`, `"{\"x\":1}"`),
		"name at the end of the item":         begin + delta + other(end, "ls", "rm"),
		"ID at the end of the item":           begin + delta + other(end, `"c"`, `"d"`),
		"type at the end of the item":         begin + delta + other(end, `"function_call"`, `"reasoning"`),
		"arguments at the beginning":          other(begin, `""`, `"rm"`) + delta + end,
		"arguments after the end":             begin + delta + end + delta,
		"item that ends twice":                begin + delta + end + end,
		"item that begins twice":              begin + begin,
		"two calls of one ID":                 begin + delta + end + other(begin, `:0`, `:1`),
		"arguments at the end of the answer":  begin + delta + end + other(final, `"{}"`, `"{\"x\":1}"`),
		"text at the end of the part":         text + `{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Ho"}`,
		"text at the end of the message":      text + `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Ho"}]}}`,
		"message that ends without its text":  text + `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[]}}`,
		"message that begins with text":       `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Ho"}]}}`,
		"text outside of a message":           begin + `{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}`,
		"part that ends without its text":     text + `{"type":"response.content_part.done","output_index":0,"content_index":0}`,
		"event after the end":                 final + `{"type":"response.output_item.done","output_index":5,"item":{"type":"function_call","call_id":"e","name":"rm","arguments":"{}"}}`,
		"event after the mark of the end":     "[DONE]\n" + begin + delta + end,
		"output at the beginning":             `{"type":"response.created","response":{"output":[{"type":"function_call"}]}}`,
		"call without an ID":                  other(begin, `"c"`, `""`),
		"call twice at the end of the answer": other(final, `[`, `[{"type":"function_call","call_id":"c","name":"ls","arguments":"{}"},`),
		"delta that is no string":             begin + other(delta, `"{}"`, `{"x":1}`),
		"negative number":                     other(begin, ":0", ":-1"),
		"the same member twice":               `{"type":"response.created","type":"response.output_item.done"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := play(Protocol{}.NewStream("m"), framed([]byte(in)), readPlan(t, ""))
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, wire.CodeUpstream, e.Code)
		})
	}
	for _, event := range []string{
		"event: response.output_item.done\ndata: {\"type\":\"response.created\"}\n\n", // clients read either
		" data: {\"type\":\"response.created\"}\n\n",
		": comment\rdata: {\"type\":\"response.created\"}\n\n",
		"data: {\"type\":\"response.created\",\"ITEM\":{}}\n\n",
	} {
		_, err := Protocol{}.NewStream("m").Decode([]byte(event))
		require.Error(t, err, event)
	}
}

// TestManyBlocks checks that the number of blocks of an answer is limited.
func TestManyBlocks(t *testing.T) {
	s := Protocol{}.NewStream("m")
	event := []byte(`data: {"type":"response.output_item.added","item":{"type":"reasoning"}}` + "\n\n")
	var err error
	for range maxBlocks {
		_, err = s.Decode(event)
		require.NoError(t, err)
	}
	_, err = s.Decode(event)
	require.Error(t, err)
}

// TestSplitDelta checks that a part of a chunk can be written before the rest of it.
func TestSplitDelta(t *testing.T) {
	s := Protocol{}.NewStream("m")
	var dst []byte
	for _, event := range splitEvents(framed([]byte(`{"type":"response.output_item.added","output_index":0,"sequence_number":0,"item":{"type":"message","id":"m","content":[]}}
{"type":"response.content_part.added","output_index":0,"content_index":0,"sequence_number":1,"part":{"type":"output_text","text":""}}
{"type":"response.output_text.delta","output_index":0,"content_index":0,"sequence_number":2,"delta":"Hello"}
{"type":"response.output_text.done","output_index":0,"content_index":0,"sequence_number":3,"text":"Hello"}
{"type":"response.output_item.done","output_index":0,"sequence_number":4,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"Hello"}]}}`))) {
		items, err := s.Decode(event)
		require.NoError(t, err)
		for i := range items {
			if it := &items[i]; it.Kind == wire.Delta {
				open := wire.Item{Kind: wire.Open, Block: it.Block}
				dst = s.Text(s.Text(dst, &open, "Hel"), &open, "lo")
			} else {
				dst = s.Pass(dst, it)
			}
		}
	}
	checkClient(t, dst, true)
	require.Equal(t, 2, bytes.Count(dst, []byte("data: {\"type\":\"response.output_text.delta\"")))
	require.Contains(t, string(dst), `"sequence_number":5,"item":{"type":"message"`)
}

// TestLongAnswer checks that the text of an answer is limited.
func TestLongAnswer(t *testing.T) {
	s := Protocol{}.NewStream("m").(*stream)
	s.size = maxText - 1
	in := framed([]byte(`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}
{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}`))
	_, err := play(s, in, &plan{})
	require.ErrorContains(t, err, "bytes")
}

// TestAddedCustomCall checks that a call which a module adds has the form of its tool.
func TestAddedCustomCall(t *testing.T) {
	s := Protocol{}.NewStream("m")
	_, err := s.Decode(
		[]byte(`data: {"type":"response.created","response":{"tools":[{"type":"custom","name":"exec"}]}}` + "\n\n"),
	)
	require.NoError(t, err)
	call := abi.NewToolCall("c1", "exec", `{"input":"ls()"}`)
	require.Contains(t, string(s.AddCall(nil, &call)), `"type":"custom_tool_call"`)
	call.Function.Arguments = `{"program":"ls()"}`
	out := string(s.AddCall(nil, &call))
	require.NotContains(t, out, "custom_tool_call")
	require.Contains(t, out, "A call of the tool \\\"exec\\\" was left out")
}
