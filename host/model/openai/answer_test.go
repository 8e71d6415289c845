package openai

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/model"
)

// TestStreams checks the response and the chunks for each form in which endpoints stream an
// answer, and that the response is the same without a sink.
func TestStreams(t *testing.T) {
	t.Parallel()
	hello := sse(
		delta(`{"role":"assistant","content":""}`),
		delta(`{"content":"hel"}`),
		delta(`{"content":"lo"}`),
		finish("stop"),
		"[DONE]",
	)
	callsMessage := `{"role":"assistant","content":null,"tool_calls":[` +
		`{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}},` +
		`{"id":"c2","type":"function","function":{"name":"sub","arguments":"{\"b\":2}"}}]}`
	for name, tc := range map[string]struct {
		body    string
		message string
		finish  string
		chunks  string // not checked if empty
	}{
		"plain": {
			body: hello, message: `{"role":"assistant","content":"hello"}`,
			chunks: `[{"kind":"text","text":"hel"},{"kind":"text","text":"lo"}]`,
		},
		"no done, no blank line, no space, carriage returns": {
			body:    "data:" + delta(`{"content":"hello"}`) + "\r\ndata:" + finish("stop"),
			message: `{"role":"assistant","content":"hello"}`,
		},
		"byte order mark": {body: "\ufeff" + hello, message: `{"role":"assistant","content":"hello"}`},
		"a thousand comments": {
			body: strings.Repeat(": OPENROUTER PROCESSING\n\n", 1000) + hello, message: `{"role":"assistant","content":"hello"}`,
		},
		"an event of several lines": {
			body:    "event: message\nid: 7\ndata: {\"choices\":\ndata: [{\"delta\":{\"content\":\"hello\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n",
			message: `{"role":"assistant","content":"hello"}`,
		},
		"events without choices": {
			body: sse(`{"choices":[],"prompt_filter_results":[]}`, `{"type":"ping"}`, `{"object":"chat.completion.chunk"}`) + hello, message: `{"role":"assistant","content":"hello"}`,
		},
		"other choices": {
			body:    sse(`{"choices":[{"index":1,"delta":{"content":"no"}}]}`, `{"choices":[{"delta":{"content":"yes"},"finish_reason":"length"},{"index":2,"delta":{"content":"no"}}]}`),
			message: `{"role":"assistant","content":"yes"}`, finish: "length",
		},
		"empty finish reasons": {
			body: sse(`{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}`, finish("stop")), message: `{"role":"assistant","content":"a"}`,
		},
		"a document where a stream was asked for": {
			body:    "\n\n  {\"choices\":[{\"index\":0,\n\"message\":{\"role\":\"assistant\",\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n",
			message: `{"role":"assistant","content":"hello"}`, chunks: `[{"kind":"text","text":"hello"}]`,
		},
		"a document without a finish reason": {
			body:    `{"choices":[{"message":{"content":"","tool_calls":[{"id":"c1","function":{"name":"now","arguments":{"zone": "UTC"}}}]}}]}`,
			message: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"now","arguments":"{\"zone\":\"UTC\"}"}}]}`,
			finish:  "tool_calls",
		},
		"cut behind the end": {
			body:    sse(delta(`{"content":"hello"}`), finish("stop")) + `data: {"usa`,
			message: `{"role":"assistant","content":"hello"}`,
		},
		"nothing said": {body: sse(finish("stop")), message: `{"role":"assistant","content":""}`},
		"reasoning_content": {
			body:    sse(delta(`{"reasoning_content":"hm"}`), delta(`{"reasoning_content":"m","content":null}`), delta(`{"content":"a"}`), finish("stop")),
			message: `{"role":"assistant","content":"a","reasoning_content":"hmm"}`,
			chunks:  `[{"kind":"reasoning","text":"hm"},{"kind":"reasoning","text":"m"},{"kind":"text","text":"a"}]`,
		},
		"reasoning": {
			body: sse(delta(`{"reasoning":"hm"}`), finish("stop")), message: `{"role":"assistant","content":"","reasoning_content":"hm"}`,
		},
		"both": {
			body:    sse(delta(`{"reasoning":"hm","reasoning_content":"hm"}`), finish("stop")),
			message: `{"role":"assistant","content":"","reasoning_content":"hm"}`,
		},
		"reasoning that is no text": {
			body:    sse(delta(`{"reasoning":{"steps":1}}`), finish("stop")),
			message: `{"role":"assistant","content":"","reasoning":{"steps":1}}`,
		},
		"content in parts": {
			body:    sse(delta(`{"content":[{"type":"thinking","thinking":[1.50]},{"type":"text","text":"a"}]}`), delta(`{"content":[{"type":"text","text":"b"}]}`), delta(`{"content":"c"}`), finish("stop")),
			message: `{"role":"assistant","content":[{"type":"thinking","thinking":[1.50]},{"type":"text","text":"abc"}]}`,
			chunks:  `[{"kind":"part","part":{"type":"thinking","thinking":[1.50]}},{"kind":"text","text":"a"},{"kind":"text","text":"b"},{"kind":"text","text":"c"}]`,
		},
		"text in parts": {
			body:    sse(delta(`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), finish("stop")),
			message: `{"role":"assistant","content":"ab"}`,
		},
		"unknown fields": {
			body:    sse(delta(`{"refusal":null,"annotations":[{"n":1.0}]}`), delta(`{"refusal":"I ca","annotations":[]}`), delta(`{"refusal":"n't","annotations":[{"n":2}],"score":1}`), delta(`{"refusal":null,"score":2.50}`), finish("stop")),
			message: `{"role":"assistant","content":"","refusal":"I can't","annotations":[{"n":1.0},{"n":2}],"score":2.50}`,
		},
		"the host's own fields": {
			body:    sse(delta(`{"content":"a","id":"m1","origin":"user","extra":{"x":1},"role":"user"}`), finish("stop")),
			message: `{"role":"assistant","content":"a"}`,
		},
		"broken characters": {
			body:    sse(delta("{\"content\":\"a\xffb\",\"note\":\"\xfe\"}"), delta(`{"content":"\ud83d","twice":1,"twice":2}`), finish("stop")),
			message: "{\"role\":\"assistant\",\"content\":\"a\ufffdb\ufffd\",\"note\":\"\ufffd\",\"twice\":2}",
		},
		"calls by index": {
			body: sse(
				delta(`{"content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"add","arguments":""}}]}`),
				delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}`),
				delta(`{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"sub","arguments":""}}]}`),
				delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\":2}"}},{"index":0,"function":{"arguments":":1}"}}]}`),
				finish("tool_calls"), "[DONE]"),
			message: callsMessage, finish: "tool_calls",
			chunks: `[{"kind":"tool_call","index":0,"id":"c1","name":"add","arguments":"{\"a\""},` +
				`{"kind":"tool_call","index":1,"id":"c2","name":"sub","arguments":"{\"b\":2}"},` +
				`{"kind":"tool_call","index":0,"arguments":":1}"}]`,
		},
		"calls without index": {
			body: sse(
				delta(`{"tool_calls":[{"id":"c1","function":{"name":"add","arguments":"{\"a\""}}]}`), delta(`{"tool_calls":[{"function":{"arguments":":1}"}}]}`),
				delta(`{"tool_calls":[{"id":"c2","function":{"name":"sub"}}]}`), delta(`{"tool_calls":[{"id":"c2","function":{"arguments":"{\"b\":2}"}}]}`), finish("tool_calls")),
			message: callsMessage, finish: "tool_calls",
		},
		"whole calls, all with index 0": {
			body:    sse(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":"{\"a\":1}"}}]}`), delta(`{"tool_calls":[{"index":0,"id":"c2","function":{"name":"sub","arguments":"{\"b\":2}"}}]}`), finish("tool_calls")),
			message: callsMessage, finish: "tool_calls",
		},
		"id and name again with each piece": {
			body: sse(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":""}}]}`), delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":"{\"a\":"}}]}`),
				delta(`{"tool_calls":[{"index":0,"id":"x9","function":{"name":"add","arguments":"1}"}}]}`), delta(`{"tool_calls":[{"index":1,"id":"c2","function":{"name":"sub","arguments":"{\"b\":2}"}}]}`), finish("tool_calls")),
			message: callsMessage, finish: "tool_calls",
		},
		"a name in pieces": {
			body:    sse(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"ad"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"name":"d"}}]}`), finish("tool_calls")),
			message: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":""}}]}`, finish: "tool_calls",
			chunks: `[{"kind":"tool_call","index":0,"id":"c1","name":"add","arguments":""}]`,
		},
		"no ids, and the same twice": {
			body:    sse(delta(`{"tool_calls":[{"function":{"name":"add","arguments":"{}"}},{"function":{"name":"add","arguments":"{}"}}]}`), finish("tool_calls")),
			message: `{"role":"assistant","content":null,"tool_calls":[{"id":"","type":"function","function":{"name":"add","arguments":"{}"}},{"id":"","type":"function","function":{"name":"add","arguments":"{}"}}]}`, finish: "tool_calls",
		},
		"unknown fields of a call": {
			body:    sse(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":"{}"},"extra_content":{"google":{"thought_signature":"AAA"}}}]}`), finish("tool_calls")),
			message: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{}"},"extra_content":{"google":{"thought_signature":"AAA"}}}]}`, finish: "tool_calls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, model.ClientOptions{}, answers("text/event-stream", tc.body))
			res, chunks, err := stream(t, c)
			require.NoError(t, err)
			require.Equal(t, tc.message, message(t, res))
			if tc.finish == "" {
				tc.finish = "stop"
			}
			require.Equal(t, tc.finish, res.FinishReason)
			if tc.chunks != "" {
				require.JSONEq(t, tc.chunks, said(chunks))
			}
			whole, err := c.Generate(t.Context(), ask(), nil)
			require.NoError(t, err)
			require.Equal(t, res, whole, "without a sink the response is the same")
		})
	}
}
