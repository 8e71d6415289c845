package echo_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/echo"
)

var tools = []abi.Tool{
	{Name: "search", Parameters: abi.JSON(`{"type":"object","required":["query","limit"],"properties":{
		"query":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":50},"lang":{"type":"string"}}}`)},
	{Name: "send_mail", Parameters: abi.JSON(`{"type":"object","required":["to","format","tags"],"properties":{
		"to":{},"format":{"enum":["html","text"]},"tags":{"type":"array","minItems":1,"items":{"type":["null","string"]}}}}`)},
	{Name: "now"},
	{Name: "plot", Parameters: abi.JSON(`{"type":"object","required":["points","from","to"],"properties":{
		"points":{"type":"array","minItems":2.0,"items":{"type":"number"}},"from":{"type":"integer","minimum":1.5},
		"to":{"type":"integer","maximum":0.5}}}`)},
}

func ask(messages ...abi.Message) *model.Request {
	return &model.Request{Messages: messages, Tools: tools}
}

// TestCalls checks which tools a prompt calls, and with which arguments.
func TestCalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prompt string
		calls  []string
	}{
		"no tool":              {"Hello there", nil},
		"given arguments":      {`search {"query": "a } b"} please`, []string{`search {"query": "a } b"}`}},
		"in parentheses":       {`Call now({}).`, []string{"now {}"}},
		"filled in":            {"search 120 birds", []string{`search {"limit":50,"query":"search 120 birds"}`}},
		"any value and choice": {"send_mail", []string{`send_mail {"format":"html","tags":[null],"to":"send_mail"}`}},
		"fractions as bounds":  {"plot", []string{`plot {"from":2,"points":[1,1],"to":0}`}},
		"several, in order":    {`now, then search: {"query": "x"} and now.`, []string{"now {}", `search {"query": "x"}`, "now {}"}},
		"part of a word":       {"nowhere, researching", nil},
		"no JSON":              {"search {oops", []string{`search {"limit":1,"query":"search {oops"}`}},
		"too many":             {strings.Repeat("now ", 40), slices.Repeat([]string{"now {}"}, 32)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := echo.New().
				Generate(t.Context(), ask(abi.User("search now"), abi.Assistant("no"), abi.User(test.prompt)), nil)
			require.NoError(t, err)
			var calls []string
			ids := map[string]bool{}
			for _, c := range res.Message.ToolCalls {
				calls = append(calls, c.Function.Name+" "+c.Function.Arguments)
				ids[c.ID] = true
			}
			require.Equal(t, test.calls, calls)
			require.Len(t, ids, len(calls), "each call has an ID of its own")
			if calls == nil {
				require.Equal(t, test.prompt, res.Message.Content.String())
				require.Equal(t, abi.FinishStop, res.FinishReason)
			}
		})
	}
}

// TestResultsAreTheAnswer checks that the model answers with results, and does not call again.
func TestResultsAreTheAnswer(t *testing.T) {
	t.Parallel()
	called := abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "now", "{}")}}
	result := func(text string) abi.Message {
		return abi.Message{Role: abi.RoleTool, ToolCallID: "1", Content: abi.Text(text)}
	}
	var text strings.Builder
	res, err := echo.New().
		Generate(t.Context(), ask(abi.User("now now"), called, result("one"), result("two words")), func(c abi.Chunk) error {
			text.WriteString(c.Text + "|")
			return nil
		})
	require.NoError(t, err)
	require.Equal(t, "one\ntwo words", res.Message.Content.String())
	require.Equal(t, "one\ntwo |words|", text.String())
	require.Positive(t, res.Usage.TotalTokens)
	res, err = echo.New().
		Generate(t.Context(), ask(abi.User("now"), called, result("one"), abi.System("go on"), abi.Assistant("so")), nil)
	require.NoError(t, err)
	require.NotEmpty(t, res.Message.Content.String())
}

// TestFailsOnRequest checks the directives of a prompt.
func TestFailsOnRequest(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]model.Error{
		"[fail]":       {Status: 500, Retryable: true, Message: "the model echo answered 500 Internal Server Error, as the prompt requested"},
		"a [fail 429]": {Status: 429, Retryable: true, Message: "the model echo answered 429 Too Many Requests, as the prompt requested"},
		"[fail 404] b": {Status: 404, Message: "the model echo answered 404 Not Found, as the prompt requested"},
	} {
		_, err := echo.New().Generate(t.Context(), ask(abi.User(prompt)), nil)
		var failed *model.Error
		require.ErrorAs(t, err, &failed)
		want.Code = abi.CodeModel
		require.Equal(t, want, *failed)
	}
	var text strings.Builder
	_, err := echo.New().Generate(t.Context(), ask(abi.User("one two three [break]")), func(c abi.Chunk) error {
		text.WriteString(c.Text)
		return nil
	})
	require.ErrorContains(t, err, "ended its answer early")
	require.Equal(t, "one two ", text.String())

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = echo.New().Generate(ctx, ask(abi.User("[hang]")), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// FuzzGenerate checks that arguments are JSON objects of a bounded size, whatever the prompt and
// the schema.
func FuzzGenerate(f *testing.F) {
	f.Add("now {}", `{"type":"object"}`)
	f.Add("now 7", string(tools[0].Parameters))
	f.Add("now", `{"type":"array","minItems":1000000,"items":{"type":"array","minItems":1000000}}`)
	f.Add("now", `{"type":"array","minItems":1000000000000,"items":{"required":["a"],"properties":{"a":`+
		strings.Repeat(`{"type":"array","minItems":1,"items":`, 9)+`{}`+strings.Repeat(`}`, 9)+`}}}`)
	f.Add(strings.Repeat("now ", 1000), string(tools[1].Parameters))
	f.Add("[break] now", `{}`)
	f.Add("[break]", `{}`)
	f.Add("now ((", `{"required":["a","b"],"properties":{"a":{"required":["a"]},"b":{"const":1}}}`)
	f.Fuzz(func(t *testing.T, prompt, schema string) {
		prompt = strings.ToValidUTF8(prompt, "")
		req := &model.Request{
			Messages: []abi.Message{abi.User(prompt)},
			Tools:    []abi.Tool{{Name: "now", Parameters: abi.JSON(schema)}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		if strings.Contains(prompt, "[hang") {
			cancel()
		}
		defer cancel()
		res, err := echo.New().Generate(ctx, req, func(abi.Chunk) error { return nil })
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(res.Message.ToolCalls), 32)
		var size int
		for _, c := range res.Message.ToolCalls {
			var o map[string]any
			require.NoError(t, json.Unmarshal([]byte(c.Function.Arguments), &o), c.Function.Arguments)
			size += len(c.Function.Arguments)
		}
		// JSON takes up to 6 bytes to escape one.
		require.Less(t, size, len(prompt)+6*(256*1<<10+256<<10))
	})
}
