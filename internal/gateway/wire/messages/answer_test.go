package messages

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

const wholeAnswer = `{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[
 {"type":"thinking","thinking":"Look.","signature":"c2ln"},
 {"type":"text","text":"Look\u0069ng.","citations":null},
 {"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command" : "rm"}},
 {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},
 {"type":"tool_use","id":"toolu_2","name":"Read","input":{}} ],
 "stop_reason":"tool_use","stop_sequence":null,
 "usage":{"input_tokens":10,"cache_read_input_tokens":3,"cache_creation_input_tokens":2,"output_tokens":5},"container":null}`

func parseAnswer(t *testing.T, body string) wire.Answer {
	t.Helper()
	a, err := Protocol{}.ParseAnswer([]byte(body))
	require.NoError(t, err)
	return a
}

func TestResponse(t *testing.T) {
	got, err := json.Marshal(parseAnswer(t, wholeAnswer).Response())
	require.NoError(t, err)
	require.JSONEq(t, `{"message":{"role":"assistant","content":[{"type":"thinking","thinking":"Look.","signature":"c2ln"},
	  {"type":"text","text":"Looking.","citations":null},{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}],
	  "tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"Bash","arguments":"{\"command\" : \"rm\"}"}},
	   {"id":"toolu_2","type":"function","function":{"name":"Read","arguments":"{}"}}]},
	 "finish_reason":"tool_calls","usage":{"prompt_tokens":15,"completion_tokens":5,"total_tokens":20}}`, string(got))
}

func TestEncodeAnswer(t *testing.T) {
	type replaced struct{ old, with string }
	const (
		bash = `{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command" : "rm"}}`
		read = `{"type":"tool_use","id":"toolu_2","name":"Read","input":{}}`
	)
	both := map[string]string{"toolu_1": "No.", "toolu_2": "Nor this."}
	for name, c := range map[string]struct {
		change func(m *abi.Response)
		denied map[string]string
		want   []replaced
	}{
		"nothing":     {},
		"text":        {change: func(r *abi.Response) { r.Message.Content.Parts()[1].Text = "Bye." }, want: []replaced{{`"Look\u0069ng."`, `"Bye."`}}},
		"one denied":  {denied: map[string]string{"toolu_1": "No."}, want: []replaced{{bash, `{"type":"text","text":"No."}`}}},
		"both denied": {denied: both, want: []replaced{{bash, `{"type":"text","text":"No."}`}, {read, `{"type":"text","text":"Nor this."}`}, {`"stop_reason":"tool_use"`, `"stop_reason":"end_turn"`}}},
		"denied calls that the message has no more": {
			change: func(r *abi.Response) { r.Message.ToolCalls = nil }, denied: both,
			want: []replaced{{bash, `{"type":"text","text":"No."}`}, {read, `{"type":"text","text":"Nor this."}`}, {`"stop_reason":"tool_use"`, `"stop_reason":"end_turn"`}},
		},
		"arguments": {
			change: func(r *abi.Response) { r.Message.ToolCalls[0].Function.Arguments = `{"command":"ls"}` },
			want:   []replaced{{`{"command" : "rm"}`, `{"command":"ls"}`}},
		},
		"an added call is denied": {
			change: func(r *abi.Response) {
				r.Message.ToolCalls = append(r.Message.ToolCalls, abi.NewToolCall("n", "Ask", ""))
			},
			denied: map[string]string{"n": "No."},
			want: []replaced{
				{"[\n {\"type\":\"thinking\"", `[{"type":"thinking"`},
				{",\n {\"type\":\"text\"", `,{"type":"text"`},
				{",\n " + bash + ",\n ", "," + bash + ","},
				{"},\n " + read + " ]", "}," + read + `,{"type":"text","text":"No."}]`},
			},
		},
		"the finish reason": {
			change: func(r *abi.Response) { r.FinishReason = abi.FinishLength },
			want:   []replaced{{`"stop_reason":"tool_use"`, `"stop_reason":"max_tokens"`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := parseAnswer(t, wholeAnswer)
			next := copiedResponse(t, a.Response())
			if c.change != nil {
				c.change(next)
			}
			got, err := a.Encode(next, c.denied)
			require.NoError(t, err)
			want := wholeAnswer
			for _, x := range c.want {
				require.Equal(t, 1, strings.Count(want, x.old), x.old)
				want = strings.Replace(want, x.old, x.with, 1)
			}
			require.Equal(t, want, string(got))
		})
	}
}

func copiedResponse(t *testing.T, res *abi.Response) *abi.Response {
	t.Helper()
	b, err := json.Marshal(res)
	require.NoError(t, err)
	next := &abi.Response{}
	require.NoError(t, json.Unmarshal(b, next))
	return next
}

// TestJoinedText checks that an answer whose text the chain has joined into one part is encoded with the text in the
// blocks of the upstream.
func TestJoinedText(t *testing.T) {
	const thinking, search = `{"type":"thinking","thinking":"a","signature":"b"}`, `{"type":"server_tool_use","id":"s"}`
	texts := func(texts ...string) string {
		for i := range texts {
			texts[i] = `{"type":"text","text":"` + texts[i] + `"}`
		}
		return strings.Join(texts, " , ")
	}
	for name, c := range map[string]struct{ content, text, want string }{
		"nothing changed": {
			thinking + " , " + texts("One ", "two ") + "," + search + "," + texts("three"), "One two three",
			thinking + " , " + texts("One ", "two ") + "," + search + "," + texts("three"),
		},
		"the middle": {texts("One ", "two ", "three"), "One 2 three", texts("One ", "2 ", "three")},
		"the end":    {texts("One ", "two"), "One two three", texts("One ", "two three")},
		"all":        {thinking + "," + texts("One ", "two"), "x", thinking + "," + texts("x")},
		"no text":    {thinking, "x", thinking + "," + texts("x")},
		"one gone":   {texts("One ", "two"), "two", texts("two")},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"content":[` + c.content + `],"stop_reason":"end_turn"}`
			a := parseAnswer(t, body)
			next := copiedResponse(t, a.Response())
			parts := slices.DeleteFunc(
				slices.Clone(next.Message.Content.Parts()),
				func(p abi.Part) bool { return p.Type == "text" },
			)
			next.Message.Content = abi.Parts(append([]abi.Part{{Type: "text", Text: c.text}}, parts...)...)
			got, err := a.Encode(next, nil)
			require.NoError(t, err)
			require.Equal(t, `{"content":[`+c.want+`],"stop_reason":"end_turn"}`, string(got))
		})
	}
}

// TestAddToTextAnswer checks that a call that is added to an answer that a stop sequence ended replaces the stop
// reason.
func TestAddToTextAnswer(t *testing.T) {
	a := parseAnswer(t, `{"content":[{"type":"text","text":"a"}],"stop_reason":"stop_sequence","stop_sequence":"END"}`)
	next := copiedResponse(t, a.Response())
	require.Equal(t, abi.Text("a"), next.Message.Content)
	next.Message.ToolCalls = []abi.ToolCall{abi.NewToolCall("n", "Ask", "")}
	next.FinishReason = abi.FinishToolCalls
	got, err := a.Encode(next, nil)
	require.NoError(t, err)
	require.Equal(t, `{"content":[{"type":"text","text":"a"},{"type":"tool_use","id":"n","name":"Ask","input":{}}],`+
		`"stop_reason":"tool_use","stop_sequence":null}`, string(got))
}

func TestEncodeAnswerRejects(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *abi.Response)
		want   string
	}{
		"reasoning removed": {func(r *abi.Response) { r.Message.Content = abi.Text("x") }, `"thinking" was removed`},
		"reasoning added":   {func(r *abi.Response) { r.Message.ReasoningContent = "x" }, "reasoning was added"},
		"an added part as a call": {func(r *abi.Response) {
			r.Message.Content = abi.Parts(append(r.Message.Content.Parts(), abi.Part{Type: "tool_use"})...)
		}, `"tool_use" was added`},
	} {
		t.Run(name, func(t *testing.T) {
			a := parseAnswer(t, wholeAnswer)
			next := copiedResponse(t, a.Response())
			c.change(next)
			_, err := a.Encode(next, nil)
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, wire.CodeModule, e.Code)
			require.Contains(t, e.Message, c.want)
		})
	}
}

func TestParseAnswerRejects(t *testing.T) {
	for name, body := range map[string]string{
		"no JSON":             "<html>",
		"a string":            `"x"`,
		"no content":          `{}`,
		"two calls of one ID": `{"content":[{"type":"tool_use","id":"a","name":"b","input":{}},{"type":"tool_use","id":"a","name":"c","input":{}}]}`,
		"a call without ID":   `{"content":[{"type":"tool_use","name":"b","input":{}}]}`,
		"Content":             `{"content":[],"Content":[]}`,
		"a long reason":       `{"content":[],"stop_reason":"` + strings.Repeat("x", 200) + `"}`,
		"too many calls":      `{"content":[` + strings.Repeat(`{"type":"tool_use","id":"a","name":"b","input":{}},`, maxCalls) + `{"type":"tool_use","id":"a","name":"b","input":{}}]}`,
		"too many blocks":     `{"content":[` + strings.Repeat(`{},`, maxBlocks) + `{}]}`,
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
	res := &abi.Response{
		Message: abi.Message{
			Role: abi.RoleAssistant, ReasoningContent: "unsigned",
			Content:   abi.Parts(abi.Part{Type: "text", Text: "Hi."}, abi.Part{Type: "tool_use"}),
			ToolCalls: []abi.ToolCall{abi.NewToolCall("", "Ask", `{"a" : 1}`), abi.NewToolCall("b", "Ask", "no JSON")},
		},
		Usage: &abi.Usage{PromptTokens: 1, CompletionTokens: 2},
	}
	got := madeID.ReplaceAllString(string(Protocol{}.NewAnswer(res, "m-1")), `"${1}_NEW"`)
	require.Equal(
		t,
		`{"id":"msg_NEW","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"Hi."},`+
			`{"type":"tool_use","id":"toolu_NEW","name":"Ask","input":{"a" : 1}},`+
			`{"type":"tool_use","id":"b","name":"Ask","input":{"invalid_arguments":"no JSON"}}],`+
			`"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2}}`,
		got,
	)
}

// FuzzAnswer checks that an answer keeps its bytes if nothing changes it, and that no denied call
// remains.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(wholeAnswer))
	f.Add([]byte(`{"content":[],"stop_reason":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := Protocol{}.ParseAnswer(body)
		if err != nil {
			return
		}
		got, err := a.Encode(a.Response(), nil)
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, got), "an answer that did not change must keep its bytes")
		calls := a.Response().Message.ToolCalls
		denied := map[string]string{}
		for _, c := range calls {
			denied[c.ID] = "denied"
		}
		got, err = a.Encode(a.Response(), denied)
		require.NoError(t, err)
		again, err := Protocol{}.ParseAnswer(got)
		require.NoError(t, err, "%s", got)
		require.Empty(t, again.Response().Message.ToolCalls)
		if len(calls) > 0 {
			require.NotEqual(t, abi.FinishToolCalls, again.Response().FinishReason)
		}
	})
}
