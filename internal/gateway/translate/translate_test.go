package translate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/chat"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
)

var protocols = map[string]wire.Protocol{
	"chat": chat.Protocol{}, "messages": messages.Protocol{}, "responses": responses.Protocol{},
}

func pairOf(names string) Pair {
	client, upstream, _ := strings.Cut(names, " to ")
	return Pair{Client: protocols[client], Upstream: protocols[upstream]}
}

// TestRequest checks which parts of a request reach an upstream of another protocol, and that hints are
// left out.
func TestRequest(t *testing.T) {
	t.Parallel()
	for names, tc := range map[string]struct{ body, want string }{
		"chat to messages": {`{"model":"m","stream":true,"stream_options":{"include_usage":true},"store":true,"metadata":{"a":"b"},
			"seed":null,"n":1,"frequency_penalty":0,"max_completion_tokens":7,"temperature":0.2,"reasoning_effort":"low",
			"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},
			{"role":"assistant","content":null,"refusal":null,"annotations":[],"reasoning_content":"hm","tool_calls":[{"id":"c","index":0,"type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c","content":"r"},
			{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}],"refusal":"No."},{"role":"user","content":"u"}],
			"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}]}`,
			`{"max_tokens":7,"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]},{"role":"assistant","content":"No."},` +
				`{"role":"user","content":"u"}],"model":"m","output_config":{"effort":"low"},"stream":true,"system":"s","temperature":0.2,` +
				`"tools":[{"name":"f","input_schema":{"type":"object"}}]}`},
		"messages to chat": {`{"model":"m","max_tokens":9,"stream":true,"metadata":{"user_id":"u"},"thinking":{"type":"adaptive"},"stop_sequences":["x"],
			"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
			"output_config":{"effort":"high","format":{"type":"json_schema","schema":{"type":"object"}}},
			"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
			"messages":[{"role":"user","content":[{"type":"text","text":"u","citations":null}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"b"},{"type":"thinking","thinking":"a"},
				{"type":"thinking","thinking":"a","signature":""},{"type":"tool_use","id":"c","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r","is_error":true}]}],
			"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],
			"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`,
			`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"user","content":[{"type":"text","text":"u"}]},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"role":"tool","content":"r","name":"f","tool_call_id":"c"}],` +
				`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"stream":true,"max_tokens":9,` +
				`"parallel_tool_calls":false,"reasoning_effort":"high","response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}},` +
				`"stop":["x"],"stream_options":{"include_usage":true},"tool_choice":"required"}`},
		"responses to messages": {`{"model":"m","instructions":"s","store":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k",
			"reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"text"}},"max_output_tokens":9,
			"input":[{"type":"reasoning","summary":[],"encrypted_content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"r"}],"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true}]}`,
			`{"max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}],"model":"m","output_config":{"effort":"low"},` +
				`"system":"s","tools":[{"name":"f","input_schema":{"type":"object"}}]}`},
	} {
		q, err := pairOf(names).Request([]byte(tc.body))
		require.NoError(t, err, names)
		require.Equal(t, tc.want, string(q.Body), names)
	}
}

// TestRejects checks that the error names the client's field that the upstream's protocol lacks.
func TestRejects(t *testing.T) {
	t.Parallel()
	const (
		ofChat      = `{"model":"m","messages":[{"role":"user","content":"u"}],`
		ofMessages  = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"u"}],`
		ofResponses = `{"model":"m","input":"u",`
		inChat      = `{"model":"m","messages":[`
		inMessages  = `{"model":"m","max_tokens":1,"messages":[`
		inResponses = `{"model":"m","input":[`
	)
	for _, tc := range []struct{ names, body, param string }{
		{"chat to messages", ofChat + `"seed":1}`, "seed"},
		{"chat to messages", ofChat + `"new_thing":1}`, "new_thing"},
		{"chat to messages", ofChat + `"service_tier":"flex"}`, "service_tier"},
		{"chat to messages", ofChat + `"tools":[{"type":"custom","custom":{"name":"f"}}]}`, "tools[0]"},
		{"chat to messages", ofChat + `"tool_choice":{"type":"allowed_tools","allowed_tools":{}}}`, "tool_choice"},
		{"chat to messages", ofChat + `"response_format":{"type":"json_object"}}`, "response_format"},
		{"chat to responses", ofChat + `"stop":["x"]}`, "stop"},
		{"chat to messages", inChat + `{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}]}]}`, "messages[0].content.0"},
		{"chat to messages", inChat + `{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`, "messages[0].content[0]"},
		{"chat to messages", inChat + `{"role":"user","content":[{"type":"video","video":{}}]}]}`, "messages[0].content[0]"},
		{"chat to messages", inChat + `{"role":"assistant","content":"a","audio":{"id":"x"}}]}`, "messages[0].audio"},
		{"chat to messages", inChat + `{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"},"extra_content":{"s":1}}]}]}`, "messages[0].tool_calls[0].extra_content"},
		{"chat to responses", inChat + `{"role":"user","name":"ann","content":"a"}]}`, "messages[0].name"},
		{"messages to chat", ofMessages + `"top_k":1}`, "top_k"},
		{"messages to chat", ofMessages + `"thinking":{"type":"enabled","budget_tokens":1024}}`, "thinking"},
		{"messages to chat", ofMessages + `"mcp_servers":[{"type":"url"}]}`, "mcp_servers"},
		{"messages to chat", ofMessages + `"context_management":{"edits":[{"type":"x"}]}}`, "context_management"},
		{"messages to chat", ofMessages + `"output_config":{"effort":"max"}}`, "output_config.effort"},
		{"messages to chat", ofMessages + `"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, "tools[0]"},
		{"messages to chat", ofMessages + `"tools":[{"type":"bash_20250124","name":"bash"}]}`, "tools[0]"},
		{"messages to responses", ofMessages + `"stop_sequences":["x"]}`, "stop_sequences"},
		{"messages to chat", inMessages + `{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]}]}`, "messages[0].content[0]"},
		{"messages to chat", inMessages + `{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]}`, "messages[0].content[0]"},
		{"messages to chat", inMessages + `{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AA=="},"citations":{"enabled":true}}]}]}`, "messages[0].content[0].citations"},
		{"messages to chat", inMessages + `{"role":"system","content":"a","output_config":{"effort":"low"}}]}`, "messages[0].output_config"},
		{"messages to chat", inMessages + `{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{},"caller":{"type":"code"}}]}]}`, "messages[0].content[0].caller"},
		{"responses to chat", inResponses + `{"type":"function_call","call_id":"c","name":"f","arguments":"{}","namespace":"n"}]}`, "input[0].namespace"},
		{"chat to messages", ofChat + `"reasoning_effort":"minimal"}`, "reasoning_effort"},
		{"responses to messages", ofResponses + `"reasoning":{"effort":"none"}}`, "reasoning.effort"},
		{"responses to chat", ofResponses + `"previous_response_id":"r"}`, "previous_response_id"},
		{"responses to chat", ofResponses + `"truncation":"auto"}`, "truncation"},
		{"responses to chat", ofResponses + `"include":["file_search_call.results"]}`, "include"},
		{"responses to chat", ofResponses + `"max_tool_calls":1}`, "max_tool_calls"},
		{"responses to chat", ofResponses + `"reasoning":{"new":1}}`, "reasoning.new"},
		{"responses to chat", ofResponses + `"tools":[{"type":"web_search"}]}`, "tools[0]"},
		{"responses to chat", ofResponses + `"tools":[{"type":"custom","name":"exec"}]}`, "tools[0]"},
		{"responses to messages", ofResponses + `"text":{"format":{"type":"json_object"}}}`, "text.format"},
		{"responses to messages", ofResponses + `"text":{"verbosity":"low"}}`, "text.verbosity"},
		{"responses to chat", inResponses + `{"type":"item_reference","id":"x"}]}`, "messages[0].content[0]"},
		{"responses to chat", inResponses + `{"type":"web_search_call","id":"x"}]}`, "messages[0].content[0]"},
	} {
		_, err := pairOf(tc.names).Request([]byte(tc.body))
		var failed *wire.Error
		require.ErrorAs(t, err, &failed, tc.body)
		require.Equal(t, wire.CodeInvalid, failed.Code, tc.body)
		require.Equal(t, tc.param, failed.Param, failed.Message)
	}
}

// everyPair calls fn for each pair of different protocols.
func everyPair(t *testing.T, fn func(t *testing.T, p Pair)) {
	for client := range protocols {
		for upstream := range protocols {
			if client != upstream {
				t.Run(client+" to "+upstream, func(t *testing.T) {
					t.Parallel()
					fn(t, pairOf(client+" to "+upstream))
				})
			}
		}
	}
}

// answer returns a streamed answer of a protocol.
func answer(p wire.Protocol) []byte {
	call := abi.NewToolCall("c1", "f", `{"a":"é"}`)
	w := p.NewWriter("m")
	b := w.Text(nil, abi.ChunkText, "Hé")
	b = w.Text(b, abi.ChunkText, "llo")
	b = w.Call(b, &call)
	call = abi.NewToolCall("c2", "g", "{}")
	b = w.Call(b, &call)
	return w.End(b, abi.FinishToolCalls, &abi.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7})
}

// read returns the client's stream, and its answer.
func read(t testing.TB, p wire.Protocol, r io.Reader) (wire.Stream, error) {
	b, err := io.ReadAll(r)
	s := p.NewStream("m")
	events := wire.NewEventReader(bytes.NewReader(b), 1<<20, nil)
	for {
		event, end := events.Next()
		if end != nil {
			require.ErrorIs(t, end, io.EOF, "half an event: %s", b)
			return s, err
		}
		if _, failed := s.Decode(event); failed != nil {
			return s, failed
		}
	}
}

func (p Pair) read(t testing.TB, body io.Reader) (wire.Stream, error) {
	stream := p.Stream(io.NopCloser(body), &Request{Model: "m", usage: true}, 1<<20, func(int) error { return nil })
	defer stream.Close()
	return read(t, p.Client, stream)
}

// TestStream checks that a client reads what an upstream of another protocol streams, however its bytes arrive.
func TestStream(t *testing.T) {
	t.Parallel()
	everyPair(t, func(t *testing.T, p Pair) {
		for _, cut := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
		} {
			s, err := p.read(t, cut(bytes.NewReader(answer(p.Upstream))))
			require.NoError(t, err)
			require.True(t, s.Complete())
			res := s.Response()
			require.Equal(t, "Héllo", res.Message.Content.String())
			require.Equal(t, []abi.ToolCall{abi.NewToolCall("c1", "f", `{"a":"é"}`), abi.NewToolCall("c2", "g", "{}")},
				res.Message.ToolCalls)
			require.Equal(t, abi.FinishToolCalls, res.FinishReason)
			require.Equal(t, &abi.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}, res.Usage)
		}
	})
}

// TestCutStream checks that a client that gets a cut stream does not take it for a whole answer, and gets no part of
// a call.
func TestCutStream(t *testing.T) {
	t.Parallel()
	everyPair(t, func(t *testing.T, p Pair) {
		whole := answer(p.Upstream)
		for i := 0; i < len(whole); i += 3 {
			s, err := p.read(t, bytes.NewReader(whole[:i]))
			res := s.Response()
			require.True(t, strings.HasPrefix("Héllo", res.Message.Content.String()))
			for _, c := range res.Message.ToolCalls {
				require.Contains(t, []string{`{"a":"é"}`, "{}"}, c.Function.Arguments, "cut at %d", i)
			}
			if !s.Complete() {
				require.Error(t, err, "cut at %d", i)
			}
		}
	})
}

// TestFailures checks that clients get an error for an upstream's failures within a stream.
func TestFailures(t *testing.T) {
	t.Parallel()
	for names, stream := range map[string]string{
		"chat to messages":      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		"messages to responses": "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"x\",\"message\":\"Overloaded\"}}}\n\n",
		"responses to chat":     "data: {\"error\":{\"message\":\"Overloaded\"}}\n\n",
	} {
		p := pairOf(names)
		r := p.Stream(io.NopCloser(strings.NewReader(stream)), &Request{}, 1<<20, func(int) error { return nil })
		b, err := io.ReadAll(r)
		require.NoError(t, err, names)
		require.Contains(t, string(b), "Overloaded", names)
		require.NoError(t, r.Close())
	}
}

// TestLimits checks that a stream ends with an error if it is too large or memory is short.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := pairOf("chat to messages")
	body := answer(p.Upstream)
	full := wire.Errorf(wire.CodeBusy, "no memory")
	for _, r := range []io.Reader{
		p.Stream(io.NopCloser(bytes.NewReader(body)), &Request{}, 100, func(int) error { return nil }),
		p.Stream(io.NopCloser(bytes.NewReader(body)), &Request{}, 1<<20, func(int) error { return full }),
	} {
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Contains(t, string(b), `"error"`)
		require.NotContains(t, string(b), `"finish_reason":"tool_calls"`)
	}
}

// TestAnswer checks whole answers and errors.
func TestAnswer(t *testing.T) {
	t.Parallel()
	everyPair(t, func(t *testing.T, p Pair) {
		res := &abi.Response{
			FinishReason: abi.FinishLength,
			Usage:        &abi.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3},
			Message:      abi.Message{Role: abi.RoleAssistant, Content: abi.Text("a")},
		}
		b, err := p.Answer(p.Upstream.NewAnswer(res, "real"), &Request{Model: "m"})
		require.NoError(t, err)
		got, err := p.Client.ParseAnswer(b)
		require.NoError(t, err)
		require.Equal(t, res, got.Response())
		_, err = p.Answer([]byte("<html>"), &Request{Model: "m"})
		var failed *wire.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, wire.CodeUpstream, failed.Code)

		_, body := p.Upstream.Error(wire.Errorf(wire.CodeBusy, "slow down"))
		want := wire.Errorf(wire.CodeBusy, "slow down")
		_, same := p.Client.Error(want)
		require.Equal(t, string(same), string(p.Error(429, body)))
		require.Contains(t, string(p.Error(503, []byte("<html>"))), "Service Unavailable")
	})
}

// TestRefusal checks that the text with which a model of chat completions refuses to answer reaches the client.
func TestRefusal(t *testing.T) {
	t.Parallel()
	b, err := pairOf("messages to chat").Answer([]byte(
		`{"choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"I cannot."},"finish_reason":"stop"}]}`,
	), &Request{})
	require.NoError(t, err)
	require.Contains(t, string(b), `"text":"I cannot."`)
}

// FuzzRequest checks that a client's request becomes one that the upstream's protocol accepts, with the same texts and
// calls, or an error of the client.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"}]}],"stop":"x"}`,
		`{"model":"m","max_tokens":1,"system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]}`,
		`{"model":"m","instructions":"s","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AA=="}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]}`,
	} {
		for i := range 9 {
			f.Add(s, i)
		}
	}
	names := []string{"chat", "messages", "responses"}
	f.Fuzz(func(t *testing.T, body string, which int) {
		n := uint(which)
		p := Pair{Client: protocols[names[n%3]], Upstream: protocols[names[n/3%3]]}
		q, err := p.Request([]byte(body))
		if err != nil {
			var failed *wire.Error
			require.True(t, errors.As(err, &failed) && failed.Code == wire.CodeInvalid, "%v", err)
			return
		}
		was, err := p.Client.ParseRequest([]byte(body))
		require.NoError(t, err)
		is, err := p.Upstream.ParseRequest(q.Body)
		require.NoError(t, err, "%s", q.Body)
		require.Equal(t, was.Call().Model, is.Call().Model)
		require.Equal(t, calls(was.Call()), calls(is.Call()), "%s", q.Body)
	})
}

// calls lists the calls and results of a request, and its tools.
func calls(c *wire.Call) []string {
	var out []string
	for i := range c.Messages {
		m := &c.Messages[i]
		for _, call := range m.ToolCalls {
			out = append(out, call.ID+" "+call.Function.Name)
		}
		if m.Role == abi.RoleTool {
			out = append(out, "result of "+m.ToolCallID)
		}
	}
	for i := range c.Tools {
		out = append(out, fmt.Sprintf("tool %s: %s", c.Tools[i].Name, c.Tools[i].Description))
	}
	return out
}
