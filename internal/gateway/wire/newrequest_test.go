package wire_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/chat"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
)

var protocols = map[string]wire.Protocol{
	"chat": chat.Protocol{}, "messages": messages.Protocol{}, "responses": responses.Protocol{},
}

func messagesOf(t testing.TB, text string) []abi.Message {
	t.Helper()
	v, err := rawjson.Parse([]byte(text))
	require.NoError(t, err)
	var out []abi.Message
	for _, e := range v.Elements() {
		var m abi.Message
		require.NoError(t, m.UnmarshalJSON(e.Text))
		out = append(out, m)
	}
	return out
}

func paramsOf(t testing.TB, text string) abi.Params {
	t.Helper()
	v, err := rawjson.Parse([]byte(text))
	require.NoError(t, err)
	out := abi.Params{}
	for _, m := range v.Members() {
		out[m.Name] = m.Value.Text
	}
	return out
}

// TestNewRequest checks the requests of the three protocols for the same call.
func TestNewRequest(t *testing.T) {
	t.Parallel()
	const thinking = `{"type":"thinking","thinking":"hm","signature":"c2ln"}`
	const reasoning = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAA="}`
	call := wire.Call{
		Model: "m", Stream: true,
		Messages: messagesOf(t, `[{"role":"system","content":"Be kind."},
			{"id":"x","role":"user","origin":"user","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},
			{"role":"assistant","content":[`+thinking+`,`+reasoning+`,{"type":"text","text":"I look."}],"reasoning_content":"hm",
			 "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{"}}]},
			{"role":"tool","tool_call_id":"c1","name":"f","content":"one"},
			{"role":"tool","tool_call_id":"c2","name":"f","content":null},
			{"role":"user","content":"Go on"}]`),
		Tools: []abi.Tool{{Name: "f", Description: "does", Parameters: abi.JSON(`{"type":"object"}`)}, {Name: "g"}},
		Params: paramsOf(
			t,
			`{"temperature":0.5,"max_tokens":10,"tool_choice":"required","parallel_tool_calls":false,"user":null,`+
				`"response_format":{"type":"json_schema","json_schema":{"name":"o","schema":{"type":"object"}}},"reasoning_effort":"low"}`,
		),
	}
	want := map[string]string{
		"chat": `{"model":"m","messages":[{"role":"system","content":"Be kind."},` +
			`{"role":"user","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},` +
			`{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},` +
			`{"id":"c2","type":"function","function":{"name":"f","arguments":"{"}}]},` +
			`{"role":"tool","content":"one","name":"f","tool_call_id":"c1"},{"role":"tool","content":null,"name":"f","tool_call_id":"c2"},` +
			`{"role":"user","content":"Go on"}],` +
			`"tools":[{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object"}}},` +
			`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],"stream":true,` +
			`"max_tokens":10,"parallel_tool_calls":false,"reasoning_effort":"low",` +
			`"response_format":{"type":"json_schema","json_schema":{"name":"o","schema":{"type":"object"}}},` +
			`"temperature":0.5,"tool_choice":"required","user":null}`,
		"messages": `{"max_tokens":10,"messages":[` +
			`{"role":"user","content":[{"type":"text","text":"See"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},` +
			`{"role":"assistant","content":[` + thinking + `,{"type":"text","text":"I look."},` +
			`{"type":"tool_use","id":"c1","name":"f","input":{"a":1}},{"type":"tool_use","id":"c2","name":"f","input":{"invalid_arguments":"{"}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"one"},{"type":"tool_result","tool_use_id":"c2"}]},` +
			`{"role":"user","content":"Go on"}],"model":"m",` +
			`"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},` +
			`"stream":true,"system":"Be kind.","temperature":0.5,"tool_choice":{"type":"any","disable_parallel_tool_use":true},` +
			`"tools":[{"name":"f","description":"does","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"}}]}`,
		"responses": `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"See"},` +
			`{"type":"input_image","image_url":"data:image/png;base64,AA=="}]},` + reasoning + `,` +
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},` +
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},{"type":"function_call","call_id":"c2","name":"f","arguments":"{"},` +
			`{"type":"function_call_output","call_id":"c1","output":"one"},{"type":"function_call_output","call_id":"c2","output":""},` +
			`{"type":"message","role":"user","content":"Go on"}],"instructions":"Be kind.","max_output_tokens":10,"model":"m",` +
			`"parallel_tool_calls":false,"reasoning":{"effort":"low"},"store":false,"stream":true,"temperature":0.5,` +
			`"text":{"format":{"type":"json_schema","name":"o","schema":{"type":"object"}}},"tool_choice":"required",` +
			`"tools":[{"type":"function","name":"f","description":"does","parameters":{"type":"object"},"strict":false},` +
			`{"type":"function","name":"g","description":"","parameters":{"type":"object","properties":{}},"strict":false}]}`,
	}
	for name, p := range protocols {
		body, err := p.NewRequest(&call)
		require.NoError(t, err, name)
		require.Equal(t, want[name], string(body), name)
		_, err = p.ParseRequest(body)
		require.NoError(t, err, name)
	}
}

// TestNewRequestRejects checks that the error for a call that a protocol does not support names the field.
func TestNewRequestRejects(t *testing.T) {
	t.Parallel()
	user := `[{"role":"user","content":"a"}]`
	for _, tc := range []struct{ protocol, messages, params, want string }{
		{"messages", user, `{"seed":1}`, "seed"},
		{"messages", user, `{"n":2}`, "n"},
		{"messages", user, `{"frequency_penalty":0.5}`, "frequency_penalty"},
		{"messages", user, `{"response_format":{"type":"json_object"}}`, "response_format"},
		{"messages", user, `{"messages":[]}`, "messages"},
		{"messages", user, `{"tool_choice":5}`, "tool_choice"},
		{"messages", `[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}]}]`, `{}`, "messages[0].content.0"},
		{"messages", `[{"role":"user","name":"ann","content":"a"}]`, `{}`, "messages[0].name"},
		{"messages", `[{"role":"assistant","content":null,"tool_calls":[{"id":"","function":{"name":"f"}}]}]`, `{}`, "messages[0].tool_calls[0]"},
		{"messages", `[{"role":"boss","content":"a"}]`, `{}`, "messages[0].role"},
		{"messages", `[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}]`, `{}`, "messages[0].content"},
		{"responses", user, `{"stop":["a"]}`, "stop"},
		{"responses", user, `{"seed":1}`, "seed"},
		{"responses", user, `{"input":[]}`, "input"},
		{"responses", `[{"role":"user","name":"ann","content":"a"}]`, `{}`, "messages[0].name"},
		{"responses", `[{"role":"user","content":[{"type":"thinking"}]}]`, `{}`, "messages[0].content"},
		{"responses", `[{"role":"boss","content":"a"}]`, `{}`, "messages[0].role"},
		{"chat", user, `{"Messages":[]}`, "Messages"},
	} {
		_, err := protocols[tc.protocol].NewRequest(
			&wire.Call{Model: "m", Messages: messagesOf(t, tc.messages), Params: paramsOf(t, tc.params)})
		var failed *wire.Error
		require.ErrorAs(t, err, &failed, "%+v", tc)
		require.Equal(t, wire.CodeInvalid, failed.Code, "%+v", tc)
		require.Equal(t, tc.want, failed.Param, "%v", failed)
		require.NotContains(t, failed.Message, "module", "%+v", tc)
	}
}

// TestDefaultsAreOmitted checks that parameters with the value that they have anyway are no error.
func TestDefaultsAreOmitted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"messages", "responses"} {
		params := paramsOf(t, `{"n":1,"frequency_penalty":0,"logprobs":false,"logit_bias":{},"modalities":["text"],`+
			`"response_format":{"type":"text"},"stream_options":{"include_usage":true}}`)
		body, err := protocols[name].NewRequest(
			&wire.Call{Model: "m", Messages: []abi.Message{abi.User("a")}, Params: params})
		require.NoError(t, err)
		for _, param := range []string{"n\"", "penalty", "logprobs", "bias", "modalities", "format", "stream"} {
			require.NotContains(t, string(body), `"`+param)
		}
	}
}

// TestUnsignedThinking checks that thinking without a signature is left out of requests to APIs that reject it.
// Mistral's chat completions have thinking with a list of parts, and read it.
func TestUnsignedThinking(t *testing.T) {
	t.Parallel()
	const list = `{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}`
	for _, part := range []string{
		`{"type":"thinking","thinking":"hm"}`,
		`{"type":"thinking","thinking":"hm","signature":""}`,
		`{"type":"thinking","thinking":"hm","signature":null}`,
		`{"type":"thinking","thinking":"hm","signature":5}`,
		list,
	} {
		for name, p := range protocols {
			body, err := p.NewRequest(&wire.Call{Model: "m", Messages: messagesOf(t,
				`[{"role":"user","content":"a"},{"role":"assistant","content":[`+part+`,{"type":"text","text":"b"}]},`+
					`{"role":"user","content":"c"},{"role":"assistant","content":[`+part+`]},{"role":"user","content":"d"}]`)})
			require.NoError(t, err)
			require.Equal(t, name == "chat" && part == list, strings.Contains(string(body), `"thinking"`), "%s: %s", name, body)
			_, err = p.ParseRequest(body)
			require.NoError(t, err, "%s: %s", name, body)
		}
	}
}

// TestReasoningComesFirst checks that signed reasoning precedes the text of its message, also after a module changed
// chunks of the text.
func TestReasoningComesFirst(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{
		"messages":  `{"type":"thinking","thinking":"hm","signature":"c2ln"}`,
		"responses": `{"type":"reasoning","summary":[],"encrypted_content":"gAA="}`,
	} {
		body, err := protocols[name].NewRequest(&wire.Call{Model: "m", Messages: messagesOf(t,
			`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"},`+part+`]}]`)})
		require.NoError(t, err)
		require.Less(t, strings.Index(string(body), part), strings.Index(string(body), `"b"`), string(body))
	}
}

// TestMaxTokens checks the limit that the Messages API requires.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		`{}`: "8192", `{"max_tokens":5}`: "5", `{"max_completion_tokens":6}`: "6",
		`{"thinking":{"type":"enabled","budget_tokens":2000}}`: "10192",
	} {
		body, err := messages.Protocol{}.NewRequest(&wire.Call{Model: "m", Params: paramsOf(t, params)})
		require.NoError(t, err)
		v, err := rawjson.Parse(body)
		require.NoError(t, err)
		require.Equal(t, want, string(v.Get("max_tokens").Text), params)
	}
}

// FuzzNewRequest checks that a new request for the call of a parsed one makes the same call.
func FuzzNewRequest(f *testing.F) {
	names := []string{"chat", "messages", "responses"}
	f.Add(
		0,
		[]byte(
			`{"model":"m","messages":[{"role":"system","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"custom","custom":{"name":"f","input":"x"}}]},{"role":"tool","tool_call_id":"1","content":"b"}],"stop":"x"}`,
		),
	)
	f.Add(
		1,
		[]byte(
			`{"model":"m","system":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}]},{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"1","name":"f","input":{}}]}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"stop_sequences":["x"],"tools":[{"name":"f","input_schema":{}}]}`,
		),
	)
	f.Add(
		2,
		[]byte(
			`{"model":"m","instructions":"a","input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]},{"type":"reasoning","summary":[],"encrypted_content":"x"},{"type":"custom_tool_call","call_id":"1","name":"f","input":"x"},{"type":"custom_tool_call_output","call_id":"1","output":[{"type":"input_text","text":"b"}]}],"text":{"format":{"type":"json_schema","name":"n","schema":{}}},"tool_choice":{"type":"function","name":"f"},"store":true}`,
		),
	)
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		p := protocols[names[uint(i)%3]]
		r, err := p.ParseRequest(body)
		if err != nil {
			return
		}
		call := r.Call()
		made, err := p.NewRequest(call)
		if err != nil {
			var failed *wire.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, wire.CodeInvalid, failed.Code)
			return
		}
		again, err := p.ParseRequest(made)
		require.NoError(t, err, "%s", made)
		require.Equal(t, call.Model, again.Call().Model)
		require.Equal(t, call.Stream, again.Call().Stream)
		require.Equal(t, said(call), said(again.Call()), "%s", made)
		for _, name := range []string{"temperature", "top_p", "tool_choice"} {
			was, is := call.Params[name], again.Call().Params[name]
			if len(was) > 0 && string(was) != "null" && (len(call.Tools) > 0 || !strings.Contains(name, "tool")) {
				require.JSONEq(t, string(was), string(is), name)
			}
		}
	})
}

// said returns the content of a call for the model: instructions, and then texts, parts, calls and results in order.
func said(call *wire.Call) []string {
	var instructions, out []string
	for i := range call.Messages {
		m := &call.Messages[i]
		to := &out
		if m.Role == abi.RoleSystem || m.Role == abi.RoleDeveloper {
			to = &instructions
		}
		for _, p := range m.Content.Parts() {
			if p.Type == abi.PartText && p.Text == "" || wire.IsReasoning(&p) {
				continue
			}
			*to = append(*to, p.Type+" "+p.Text+string(p.ImageURL)+string(p.File))
		}
		if m.Role == abi.RoleTool {
			*to = append(*to, "result of "+m.ToolCallID)
		}
		for _, c := range m.ToolCalls {
			*to = append(*to, "call "+c.ID+" "+c.Function.Name+" "+c.Function.Arguments)
		}
	}
	for i := range call.Tools {
		out = append(out, "tool "+call.Tools[i].Name+" "+call.Tools[i].Description)
	}
	return slices.Concat(instructions, out)
}
