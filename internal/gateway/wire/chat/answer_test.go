package chat

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

const answerWithCalls = `{"id":"chatcmpl-1","object":"chat.completion","model":"m", "choices":[{"index":0,
 "message":{"role":"assistant","content":"Looking.","refusal":null,"annotations":[],
  "tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{}"}},
   {"id":"b","type":"function","function":{"name":"bash","arguments":"{\"command\":\"rm\"}"}}]},
 "logprobs":{"content":[{"token":"Looking."}]},"finish_reason":"tool_calls"}],
 "usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"x":{}}`

func TestAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *abi.Response)
		denied map[string]string
		pairs  []string
	}{
		"nothing": {func(*abi.Response) {}, nil, nil},
		"text": {func(r *abi.Response) { r.Message.Content = abi.Text("Look") }, nil, []string{
			`"content":"Looking."`, `"content":"Look"`, `{"content":[{"token":"Looking."}]}`, `null`,
		}},
		"arguments": {func(r *abi.Response) {
			r.Message.ToolCalls = slices.Clone(r.Message.ToolCalls)
			r.Message.ToolCalls[1].Function.Arguments = `{"command":"ls"}`
		}, nil, []string{`\"rm\"`, `\"ls\"`}},
		"one call denied": {func(*abi.Response) {}, map[string]string{"b": "Denied."}, []string{
			`"content":"Looking."`, `"content":"Looking.\n\nDenied."`, `{"content":[{"token":"Looking."}]}`, `null`,
			`}},
   {"id":"b","type":"function","function":{"name":"bash","arguments":"{\"command\":\"rm\"}"}}]`, `}}]`,
		}},
		"all calls denied": {func(r *abi.Response) { r.Message.Content = abi.Content{} },
			map[string]string{"a": "No.", "b": "No!"}, []string{
				between(answerWithCalls, `{"role"`, ",\n \"logprobs\""),
				`{"role":"assistant","content":"No.\n\nNo!","refusal":null,"annotations":[]}`,
				`{"content":[{"token":"Looking."}]}`, `null`, `"finish_reason":"tool_calls"`, `"finish_reason":"stop"`,
			}},
		"a call added": {func(r *abi.Response) {
			r.Message.ToolCalls = append(slices.Clone(r.Message.ToolCalls), abi.NewToolCall("c", "note", "{}"))
		}, nil, []string{
			"}},\n   {\"id\":\"b\"", `}},{"id":"b"`,
			`\"rm\"}"}}]`, `\"rm\"}"}},{"id":"c","type":"function","function":{"name":"note","arguments":"{}"}}]`,
		}},
		"finish reason": {func(r *abi.Response) { r.FinishReason = abi.FinishLength }, nil, []string{
			`"finish_reason":"tool_calls"`, `"finish_reason":"length"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Protocol{}.ParseAnswer([]byte(answerWithCalls))
			require.NoError(t, err)
			next := *a.Response()
			c.change(&next)
			want := answerWithCalls
			for i := 0; i < len(c.pairs); i += 2 {
				require.Equal(t, 1, strings.Count(want, c.pairs[i]), "%s", c.pairs[i])
				want = strings.Replace(want, c.pairs[i], c.pairs[i+1], 1)
			}
			got, err := a.Encode(&next, c.denied)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		})
	}
}

// TestRefusal checks that modules see a refusal as text, and that the client still gets it as a refusal.
func TestRefusal(t *testing.T) {
	const body = `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"No, Bob."},"finish_reason":"stop"}]}`
	a, err := Protocol{}.ParseAnswer([]byte(body))
	require.NoError(t, err)
	require.Equal(t, "No, Bob.", a.Response().Message.Content.String())
	for _, content := range []abi.Content{abi.Text("No, [N]."), abi.Parts(abi.Part{Type: abi.PartText, Text: "No, [N]."})} {
		next := *a.Response()
		next.Message.Content = content
		got, err := a.Encode(&next, nil)
		require.NoError(t, err)
		require.Equal(t, strings.Replace(body, "Bob", "[N]", 1), string(got))
	}

	both := strings.Replace(body, "null", `"Hm."`, 1)
	a, err = Protocol{}.ParseAnswer([]byte(both))
	require.NoError(t, err)
	require.Equal(t, "Hm.", a.Response().Message.Content.String())
	got, err := a.Encode(a.Response(), nil)
	require.NoError(t, err)
	require.Equal(t, both, string(got))
}

func TestParseAnswerRejects(t *testing.T) {
	message := func(fields string) string { return `{"choices":[{"message":{` + fields + `}}]}` }
	for name, c := range map[string]struct{ body, want string }{
		"no JSON":               {`x`, "not valid"},
		"no choice":             {`{"choices":[]}`, "0 choices"},
		"two choices":           {`{"choices":[{},{}]}`, "2 choices"},
		"no message":            {`{"choices":[{}]}`, "object"},
		"calls in another case": {message(`"Tool_Calls":[]`), "tool_calls is spelled"},
		"a message twice":       {`{"choices":[{"message":{"role":"assistant"},"Message":{}}]}`, "message of"},
		"a user":                {message(`"role":"user"`), "role"},
		"a function's call":     {message(`"function_call":{}`), "function_call"},
		"a call without ID":     {message(`"tool_calls":[{"function":{"name":"f","arguments":""}}]`), "no id"},
		"a call without name":   {message(`"tool_calls":[{"id":"a","type":"x"}]`), "no name"},
		"an ID twice": {
			message(`"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"a","function":{"name":"g"}}]`), "two tool calls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Protocol{}.ParseAnswer([]byte(c.body))
			require.ErrorContains(t, err, c.want)
			var failure *wire.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, wire.CodeUpstream, failure.Code)
		})
	}
}

func TestNewAnswer(t *testing.T) {
	custom := abi.NewToolCall("b", "exec", "ls")
	custom.Type = "custom"
	body := Protocol{}.NewAnswer(&abi.Response{
		Message: abi.Message{ReasoningContent: "Hm", ToolCalls: []abi.ToolCall{abi.NewToolCall("a", "f", "{}"), custom}},
		Usage:   &abi.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3},
	}, "m-1")
	require.Regexp(
		t,
		`^\{"id":"chatcmpl-\w+","object":"chat.completion","created":\d+,"model":"m-1","choices"`,
		string(body),
	)
	a, err := Protocol{}.ParseAnswer(body)
	require.NoError(t, err)
	custom.Function.Arguments = `{"input":"ls"}`
	require.Equal(t, &abi.Response{
		Message: abi.Message{
			Role: abi.RoleAssistant, ReasoningContent: "Hm", ToolCalls: []abi.ToolCall{abi.NewToolCall("a", "f", "{}"), custom},
		},
		FinishReason: abi.FinishToolCalls,
		Usage:        &abi.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3},
	}, a.Response())

	body = Protocol{}.NewAnswer(&abi.Response{Message: abi.Assistant("Hi")}, "m-1")
	a, err = Protocol{}.ParseAnswer(body)
	require.NoError(t, err)
	require.Equal(t, &abi.Response{Message: abi.Assistant("Hi"), FinishReason: abi.FinishStop}, a.Response())
}

func TestError(t *testing.T) {
	for code, want := range map[wire.Code]int{
		wire.CodeInvalid:  http.StatusBadRequest,
		wire.CodeAuth:     http.StatusUnauthorized,
		wire.CodeNotFound: http.StatusNotFound,
		wire.CodeTooLarge: http.StatusRequestEntityTooLarge,
		wire.CodeDenied:   http.StatusBadRequest,
		wire.CodeBusy:     http.StatusTooManyRequests,
		wire.CodeModule:   http.StatusBadRequest,
		wire.CodeUpstream: http.StatusBadGateway,
	} {
		status, _ := Protocol{}.Error(wire.Errorf(code, "x"))
		require.Equal(t, want, status, code)
	}
	_, body := Protocol{}.Error(&wire.Error{Code: wire.CodeInvalid, Message: "n must be \"1\"", Param: "n"})
	require.Equal(t, `{"error":{"message":"n must be \"1\"","type":"invalid_request_error","param":"n",`+
		`"code":"invalid_request"}}`, string(body))
}

// FuzzAnswer checks that an answer keeps its bytes if nothing changes it, and has no calls if all are
// denied.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(answerWithCalls))
	f.Add([]byte(`{"choices":[{"message":{"content":[{"type":"text","text":"x"},{"type":"thinking"}],"reasoning":"y"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := Protocol{}.ParseAnswer(body)
		if err != nil {
			return
		}
		same, err := a.Encode(a.Response(), nil)
		require.NoError(t, err)
		require.Equal(t, string(body), string(same))

		denied := map[string]string{}
		for _, c := range a.Response().Message.ToolCalls {
			denied[c.ID] = "Denied."
		}
		text, err := a.Encode(a.Response(), denied)
		require.NoError(t, err)
		again, err := Protocol{}.ParseAnswer(text)
		require.NoError(t, err)
		require.Empty(t, again.Response().Message.ToolCalls)
		require.Equal(t, len(denied), strings.Count(again.Response().Message.Content.String(), "Denied.")-
			strings.Count(a.Response().Message.Content.String(), "Denied."))
	})
}
