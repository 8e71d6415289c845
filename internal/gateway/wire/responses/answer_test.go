package responses

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

const wholeAnswer = `{"id":"resp_1", "object":"response","status":"completed","x":1.0,"incomplete_details":null,"output":[
 {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAA="},
 {"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[]}, {"type":"refusal","refusal":"No"}]},
 {"type":"web_search_call","id":"ws_1","status":"completed"},
 {"type":"function_call","id":"fc_1","call_id":"call_1","name":"ls","arguments":"{}"},
 {"type":"custom_tool_call","id":"ctc_1","call_id":"call_2","name":"exec","input":"text(1)"}],
 "output_text":"Hello","usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}}`

func parseAnswer(t *testing.T, body string) wire.Answer {
	a, err := Protocol{}.ParseAnswer([]byte(body))
	require.NoError(t, err)
	return a
}

func TestParseAnswer(t *testing.T) {
	res := parseAnswer(t, wholeAnswer).Response()
	require.Equal(t, &abi.Response{
		Message: abi.Message{
			Role:    abi.RoleAssistant,
			Content: abi.Parts(abi.Part{Type: "text", Text: "Hello"}, abi.Part{Type: "text", Text: "No"}),
			ToolCalls: []abi.ToolCall{
				abi.NewToolCall("call_1", "ls", "{}"), abi.NewToolCall("call_2", "exec", `{"input":"text(1)"}`),
			},
		},
		FinishReason: abi.FinishToolCalls,
		Usage:        &abi.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15},
	}, res)
}

func TestEncodeAnswer(t *testing.T) {
	const reasoning, message = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAA="}`,
		`{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[]}, {"type":"refusal","refusal":"No"}]}`
	const search, ls, exec = `{"type":"web_search_call","id":"ws_1","status":"completed"}`,
		`{"type":"function_call","id":"fc_1","call_id":"call_1","name":"ls","arguments":"{}"}`,
		`{"type":"custom_tool_call","id":"ctc_1","call_id":"call_2","name":"exec","input":"text(1)"}`
	added := func(text string) string {
		return `{"type":"message","id":"msg_new1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"` +
			text + `","annotations":[],"logprobs":[]}]}`
	}
	for name, c := range map[string]struct {
		change func(m *abi.Response)
		denied map[string]string
		output []string
	}{
		"denied call": {nil, map[string]string{"call_1": "Denied."}, []string{reasoning, message, search, added("Denied."), exec}},
		"changed text": {func(r *abi.Response) {
			r.Message.Content = abi.Parts(abi.Part{Type: "text", Text: "Bye"}, r.Message.Content.Parts()[1])
		}, nil, []string{reasoning, strings.Replace(message, "Hello", "Bye", 1), search, ls, exec}},
		"one text for two parts": {func(r *abi.Response) { r.Message.Content = abi.Text("ByeNo") }, nil,
			[]string{reasoning, strings.Replace(message, "Hello", "Bye", 1), search, ls, exec}},
		"a part removed": {func(r *abi.Response) { r.Message.Content = abi.Text("No") }, nil,
			[]string{reasoning, strings.Replace(message, `{"type":"output_text","text":"Hello","annotations":[]}, `, "", 1), search, ls, exec}},
		"text removed": {func(r *abi.Response) { r.Message.Content = abi.Content{} }, nil, []string{reasoning, search, ls, exec}},
		"text added":   {func(r *abi.Response) { r.Message.Content = abi.Text("HelloNo!") }, nil, []string{reasoning, message, search, ls, exec, added("!")}},
		"call removed": {func(r *abi.Response) { r.Message.ToolCalls = r.Message.ToolCalls[1:] }, nil, []string{reasoning, message, search, exec}},
		"call changed": {func(r *abi.Response) { r.Message.ToolCalls[1].Function.Arguments = `{"input":"text(2)"}` }, nil,
			[]string{reasoning, message, search, ls, strings.Replace(exec, "(1)", "(2)", 1)}},
		"call added": {func(r *abi.Response) {
			r.Message.ToolCalls = append(r.Message.ToolCalls, abi.NewToolCall("call_3", "ls", `{"a":1}`))
		}, nil, []string{reasoning, message, search, ls, exec, `{"type":"function_call","id":"fc_new1","status":"completed","call_id":"call_3","name":"ls","arguments":"{\"a\":1}"}`}},
		"all removed but reasoning": {func(r *abi.Response) { r.Message = abi.Message{Role: abi.RoleAssistant} }, nil, []string{reasoning, search}},
	} {
		t.Run(name, func(t *testing.T) {
			a := parseAnswer(t, wholeAnswer)
			res := *a.Response()
			res.Message.ToolCalls = append([]abi.ToolCall(nil), res.Message.ToolCalls...)
			if c.change != nil {
				c.change(&res)
			}
			got, err := a.Encode(&res, c.denied)
			require.NoError(t, err)
			text := strings.TrimSpace(string(unframed(t, []byte("data: "+compact(string(got))+"\n\n"))))
			var top struct {
				Output []json.RawMessage `json:"output"`
				Status string            `json:"status"`
			}
			require.NoError(t, json.Unmarshal([]byte(text), &top))
			var output []string
			for _, item := range top.Output {
				output = append(output, string(item))
			}
			require.Equal(t, c.output, output)
			require.Equal(t, "completed", top.Status)
			require.True(t, strings.HasPrefix(text, `{"id":"resp_1", "object":"response","status":"completed","x":1.0,`))
			parseAnswer(t, string(got))
		})
	}
}

func TestEncodeAnswerUnchanged(t *testing.T) {
	a := parseAnswer(t, wholeAnswer)
	res := *a.Response()
	got, err := a.Encode(&res, nil)
	require.NoError(t, err)
	require.Equal(t, wholeAnswer, string(got))
}

func TestEncodeAnswerAfterReasoning(t *testing.T) {
	a := parseAnswer(
		t,
		`{"status":"completed","output":[{"type":"reasoning"},{"type":"function_call","call_id":"c","name":"a","arguments":""}]}`,
	)
	got, err := a.Encode(&abi.Response{FinishReason: abi.FinishLength}, nil)
	require.NoError(t, err)
	require.Contains(t, string(got), `{"type":"reasoning"},{"type":"message"`)
	require.Contains(t, string(got), `"status":"incomplete"`)
	require.Contains(t, string(got), `"incomplete_details":{"reason":"max_output_tokens"}`)
}

func TestParseAnswerRejects(t *testing.T) {
	for name, body := range map[string]string{
		"not JSON":                   `<html>`,
		"item":                       `{"output":[1]}`,
		"call without an ID":         `{"output":[{"type":"function_call","name":"a","arguments":""}]}`,
		"arguments that are no text": `{"output":[{"type":"function_call","call_id":"c","name":"a","arguments":{"x":1}}]}`,
		"text that is no string":     `{"output":[{"type":"message","content":[{"type":"output_text","text":["x"]}]}]}`,
		"two calls of one ID":        `{"output":[{"type":"function_call","call_id":"c","name":"a"},{"type":"function_call","call_id":"c","name":"b"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Protocol{}.ParseAnswer([]byte(body))
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, wire.CodeUpstream, e.Code)
		})
	}
}

func TestNewAnswer(t *testing.T) {
	want := &abi.Response{
		Message: abi.Message{
			Role: abi.RoleAssistant, Content: abi.Text("Hi"), ToolCalls: []abi.ToolCall{abi.NewToolCall("c", "ls", "{}")},
		},
		FinishReason: abi.FinishToolCalls, Usage: &abi.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3},
	}
	body := Protocol{}.NewAnswer(want, "m")
	require.Equal(t, want, parseAnswer(t, string(body)).Response())
	require.Contains(t, string(body), `"model":"m"`)
}

func TestError(t *testing.T) {
	for code, want := range map[wire.Code]int{
		wire.CodeInvalid: http.StatusBadRequest, wire.CodeAuth: http.StatusUnauthorized,
		wire.CodeNotFound: http.StatusNotFound, wire.CodeTooLarge: http.StatusRequestEntityTooLarge,
		wire.CodeDenied: http.StatusBadRequest, wire.CodeBusy: http.StatusTooManyRequests,
		wire.CodeModule: http.StatusBadRequest, wire.CodeUpstream: http.StatusBadGateway,
	} {
		status, body := Protocol{}.Error(&wire.Error{Code: code, Message: "no", Param: "input"})
		require.Equal(t, want, status, code)
		var e struct {
			Error struct{ Message, Type, Param, Code string }
		}
		require.NoError(t, json.Unmarshal(body, &e))
		require.Equal(t, []string{"no", "input", string(code)}, []string{e.Error.Message, e.Error.Param, e.Error.Code})
		require.NotEmpty(t, e.Error.Type)
	}
}
