package chat

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// history is a request with the peculiarities of real clients: fields that the ABI does not define, fields that have
// a meaning only in the ABI, numbers in other spellings, white space, and calls with their results.
const history = ` {"model":"m-1", "stream" : true,"temperature":1.0e0,"x_vendor":{"b":1,"a":2},
 "messages":[ {"role":"system","content":"Be brief."},
  {"role":"user","id":"mine","origin":"module:x","content":[{"type":"text","text":"Mail bob@x.org","cache_control":{"type":"ephemeral"}},
    {"type":"video_url","video_url":{"url":"data:video/mp4;base64,AA=="}}, {"type":"image_url","image_url":{"url":"https://x.org/a.png"}}]},
  {"role":"assistant","content":null,"refusal":null,"reasoning":"Read it.","reasoning_details":[{"data":"AAAA"}],
   "tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"path\": \"x\"}","x":1},"extra_content":{"s":"t"}},
    {"id":"b","type":"custom","custom":{"name":"exec","input":"say \"x\""}}]},
  {"role":"tool","tool_call_id":"a","content":"secret"},{"role":"tool","tool_call_id":"b","content":""},
  {"role":"user","content":"Go on\u002e"} ],
 "tools":[{"type":"function","function":{"name":"read","description":"Read","parameters":{"type":"object"},"strict":true}},
  {"type":"custom","custom":{"name":"exec","description":"Run","format":{"type":"text"}}}, {"type":"web_search"}],
 "tool_choice":"auto","parallel_tool_calls":false,"max_tokens":100}
`

func parse(t *testing.T, body string) wire.Request {
	t.Helper()
	r, err := Protocol{}.ParseRequest([]byte(body))
	require.NoError(t, err)
	return r
}

// between returns the part of s from the first occurrence of from, inclusive, to the first of to.
func between(s, from, to string) string { return s[strings.Index(s, from):strings.Index(s, to)] }

// changed returns a copy of a call that can be changed.
func changed(call *wire.Call) *wire.Call {
	c := *call
	c.Messages = slices.Clone(c.Messages)
	c.Tools = slices.Clone(c.Tools)
	c.Params = abi.Params{}
	for name, value := range call.Params {
		c.Params[name] = value
	}
	return &c
}

func TestCall(t *testing.T) {
	call := parse(t, history).Call()
	require.Equal(t, "m-1", call.Model)
	require.True(t, call.Stream)
	require.Equal(t, abi.Params{
		"temperature": abi.JSON("1.0e0"), "x_vendor": abi.JSON(`{"b":1,"a":2}`), "tool_choice": abi.JSON(`"auto"`),
		"parallel_tool_calls": abi.JSON("false"), "max_tokens": abi.JSON("100"),
	}, call.Params)
	require.Len(t, call.Messages, 6)
	user := call.Messages[1]
	require.Equal(t, "msg_2", user.ID, "the client does not choose the IDs that modules see")
	require.Empty(t, user.Origin)
	require.True(t, wire.Opaque(&user.Content.Parts()[1]))
	assistant := call.Messages[2]
	require.Equal(t, "Read it.", assistant.ReasoningContent)
	require.Equal(t, abi.FunctionCall{Name: "exec", Arguments: `{"input":"say \"x\""}`}, assistant.ToolCalls[1].Function)
	require.Equal(t, "read", call.Messages[3].Name, "modules see the tool of a result")
	require.Equal(t, []abi.Tool{
		{Name: "read", Description: "Read", Parameters: abi.JSON(`{"type":"object"}`)},
		{Name: "exec", Description: "Run", Parameters: abi.JSON(wire.CustomSchema)},
	}, call.Tools)
}

// TestEncode checks that a change changes only its own bytes of the request.
func TestEncode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *wire.Call)
		pairs  []string // old and new text
	}{
		"nothing": {func(*wire.Call) {}, nil},
		"the host's fields": {func(c *wire.Call) {
			c.Messages[0].Origin, c.Messages[0].Extra = abi.OriginUser, abi.JSON(`{}`)
		}, nil},
		"model and parameters": {func(c *wire.Call) {
			c.Model, c.Params["max_tokens"], c.Params["stop"] = "m-2", abi.JSON("5"), abi.JSON(`["x"]`)
		}, []string{`"m-1"`, `"m-2"`, `"max_tokens":100`, `"max_tokens":5,"stop":["x"]`}},
		"text of a part": {func(c *wire.Call) {
			parts := slices.Clone(c.Messages[1].Content.Parts())
			parts[0].Text = "Mail [1]"
			c.Messages[1].Content = abi.Parts(parts...)
		}, []string{"Mail bob@x.org", "Mail [1]"}},
		"a part more": {func(c *wire.Call) {
			parts := slices.Clone(c.Messages[1].Content.Parts())
			parts = append([]abi.Part{{Type: abi.PartText, Text: "Note"}}, parts[:2]...)
			c.Messages[1].Content = abi.Parts(parts...)
		}, []string{
			`"content":[{"type":"text","text":"Mail`, `"content":[{"type":"text","text":"Note"},{"type":"text","text":"Mail`,
			"}},\n    {\"type\":\"video_url\"", `}},{"type":"video_url"`,
			`, {"type":"image_url","image_url":{"url":"https://x.org/a.png"}}]`, `]`,
		}},
		"text of results": {func(c *wire.Call) {
			c.Messages[3].Content = abi.Text("[2]")
			c.Messages[5].Content = abi.Text("Stop")
		}, []string{`"secret"`, `"[2]"`, `"Go on\u002e"`, `"Stop"`}},
		"arguments and reasoning": {func(c *wire.Call) {
			calls := slices.Clone(c.Messages[2].ToolCalls)
			calls[0].Function.Arguments = `{"path":"y"}`
			calls[1].Function.Arguments = `{"input":"z"}`
			c.Messages[2].ToolCalls, c.Messages[2].ReasoningContent = calls, "Hm."
		}, []string{`{\"path\": \"x\"}`, `{\"path\":\"y\"}`, `say \"x\"`, `z`, "Read it.", "Hm."}},
		"tools": {func(c *wire.Call) {
			c.Tools[0].Description = "Read a file"
			c.Tools = []abi.Tool{c.Tools[0], {Name: "note", Parameters: abi.JSON(`{"type":"object"}`)}}
		}, []string{
			`"description":"Read"`, `"description":"Read a file"`,
			`,
  {"type":"custom","custom":{"name":"exec","description":"Run","format":{"type":"text"}}}, {"type":"web_search"}]`,
			`,{"type":"web_search"},{"type":"function","function":{"name":"note","parameters":{"type":"object"}}}]`,
		}},
		"an exchange less": {func(c *wire.Call) {
			note := abi.Message{Role: abi.RoleUser, Content: abi.Text("Note")}
			c.Messages = []abi.Message{c.Messages[0], c.Messages[1], note, c.Messages[5]}
		}, []string{
			`[ {"role":"system"`, `[{"role":"system"`, "},\n  {\"role\":\"user\",\"id\"", `},{"role":"user","id"`,
			between(history, ",\n  {\"role\":\"assistant\"", ",\n  {\"role\":\"user\",\"content\":\"Go"),
			`,{"role":"user","content":"Note"}`, ",\n  {\"role\":\"user\",\"content\":\"Go", `,{"role":"user","content":"Go`,
			`e"} ]`, `e"}]`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, history)
			next := changed(r.Call())
			c.change(next)
			want := history
			for i := 0; i < len(c.pairs); i += 2 {
				require.Equal(t, 1, strings.Count(want, c.pairs[i]), "%s", c.pairs[i])
				want = strings.Replace(want, c.pairs[i], c.pairs[i+1], 1)
			}
			got, err := r.Encode(next)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		})
	}
}

func TestRemovedParameter(t *testing.T) {
	r := parse(t, `{"model":"m","messages":[{"role":"user","content":"Hi"}],"tools":[{"function":{"name":"f"}}],`+
		`"tool_choice":"auto","top_p":1,"seed":1}`)
	next := changed(r.Call())
	delete(next.Params, "top_p")
	next.Tools = nil
	got, err := r.Encode(next)
	require.NoError(t, err)
	require.JSONEq(t, `{"model":"m","messages":[{"role":"user","content":"Hi"}],"seed":1}`, string(got),
		"the API rejects tool_choice without tools")
}

func TestNoLimitOfTokens(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":null,"max_completion_tokens":9}`
	r := parse(t, body)
	require.Equal(t, abi.Params{"max_tokens": abi.JSON("9")}, r.Call().Params)
	got, err := r.Encode(changed(r.Call()))
	require.NoError(t, err)
	require.Equal(t, body, string(got))
}

// TestLimitOfTokens checks that modules see either name of the limit as max_tokens, and lower it.
func TestLimitOfTokens(t *testing.T) {
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		body := `{"model":"m","messages":[{"role":"user","content":"Hi"}],"` + name + `":100}`
		r := parse(t, body)
		require.Equal(t, abi.Params{"max_tokens": abi.JSON("100")}, r.Call().Params)
		next := changed(r.Call())
		next.Params["max_tokens"] = abi.JSON("5")
		got, err := r.Encode(next)
		require.NoError(t, err)
		require.Equal(t, strings.Replace(body, "100", "5", 1), string(got))
		next.Params["max_tokens"] = abi.JSON("null")
		got, err = r.Encode(next)
		require.NoError(t, err)
		require.JSONEq(t, `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`, string(got))
		delete(next.Params, "max_tokens")
		next.Params["max_completion_tokens"] = abi.JSON("7")
		got, err = r.Encode(next)
		require.NoError(t, err)
		require.JSONEq(t, `{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_completion_tokens":7}`, string(got))
	}
}

func TestEncodeRejects(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *wire.Call)
		want   string
	}{
		"an opaque part": {func(c *wire.Call) {
			c.Messages[1].Content = abi.Parts(c.Messages[1].Content.Parts()[0])
		}, "belongs to the upstream"},
		"a new opaque part": {func(c *wire.Call) {
			c.Messages = append(c.Messages, abi.Message{Role: abi.RoleUser, Content: abi.Parts(abi.Part{Type: "thinking"})})
		}, "belongs to the upstream"},
		"a field of a message": {func(c *wire.Call) { c.Messages[2].Unknown = nil }, `"reasoning_details"`},
		"a field of a call": {func(c *wire.Call) {
			c.Messages[2].ToolCalls = slices.Clone(c.Messages[2].ToolCalls)
			c.Messages[2].ToolCalls[0].Unknown = nil
		}, `"extra_content"`},
		"input of a custom tool": {func(c *wire.Call) {
			c.Messages[2].ToolCalls = slices.Clone(c.Messages[2].ToolCalls)
			c.Messages[2].ToolCalls[1].Function.Arguments = `{"x":1}`
		}, "custom tool"},
		"a result":                {func(c *wire.Call) { c.Messages = slices.Delete(c.Messages, 4, 5) }, "has no result"},
		"a call":                  {func(c *wire.Call) { c.Messages = slices.Delete(c.Messages, 2, 3) }, "does not follow its call"},
		"all messages":            {func(c *wire.Call) { c.Messages = nil }, "no messages"},
		"one message twice":       {func(c *wire.Call) { c.Messages = append(c.Messages, c.Messages[0]) }, "two messages"},
		"a role":                  {func(c *wire.Call) { c.Messages[0].Role = "root" }, "role"},
		"a new role":              {func(c *wire.Call) { c.Messages = append(c.Messages, abi.Message{Role: "root"}) }, "role"},
		"answers":                 {func(c *wire.Call) { c.Params["n"] = abi.JSON("2") }, "n must be 1"},
		"a field in another case": {func(c *wire.Call) { c.Params["mesſages"] = abi.JSON("[]") }, "write messages"},
		"two limits":              {func(c *wire.Call) { c.Params["max_completion_tokens"] = abi.JSON("1") }, "set max_tokens"},
		"a field as a parameter":  {func(c *wire.Call) { c.Params["messages"] = abi.JSON("[]") }, "not a parameter"},
		"no JSON":                 {func(c *wire.Call) { c.Params["stop"] = abi.JSON("x") }, "not valid"},
		"schema of a custom tool": {func(c *wire.Call) { c.Tools[1].Parameters = abi.JSON(`{}`) }, "custom tool"},
		"the chosen tool": {func(c *wire.Call) {
			c.Params["tool_choice"] = abi.JSON(`{"type":"function","function":{"name":"read"}}`)
			c.Tools = c.Tools[1:]
		}, "tool_choice demands"},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, history)
			next := changed(r.Call())
			c.change(next)
			_, err := r.Encode(next)
			require.ErrorContains(t, err, c.want)
			var failure *wire.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, wire.CodeModule, failure.Code)
		})
	}
}

func TestParseRequestRejects(t *testing.T) {
	with := func(fields string) string {
		return `{"model":"m","messages":[{"role":"user","content":"Hi"}],` + fields + `}`
	}
	message := func(m string) string { return `{"model":"m","messages":[` + m + `]}` }
	for name, c := range map[string]struct{ body, param, want string }{
		"no JSON":                 {`{`, "", "not valid"},
		"no object":               {`[]`, "", "object"},
		"no model":                {`{"messages":[{"role":"user"}]}`, "model", "model"},
		"no messages":             {`{"model":"m","messages":[]}`, "messages", "at least one"},
		"two answers":             {with(`"n":2`), "n", "several requests"},
		"functions":               {with(`"functions":[]`), "functions", "use tools"},
		"function_call":           {with(`"function_call":"auto"`), "function_call", "tool_choice"},
		"tools as an object":      {with(`"tools":{}`), "tools", "array"},
		"a tool as a string":      {with(`"tools":["x"]`), "tools[0]", "object"},
		"a text as message":       {message(`"Hi"`), "messages[0]", "object"},
		"no role":                 {message(`{"content":"Hi"}`), "messages[0].role", "role"},
		"a function's role":       {message(`{"role":"function","content":"Hi"}`), "messages[0].role", "role"},
		"an unknown role":         {message(`{"role":"boss","content":"Hi"}`), "messages[0].role", "must be system"},
		"a function's call":       {message(`{"role":"assistant","function_call":{"name":"f"}}`), "messages[0]", "use tool_calls"},
		"a number as text":        {message(`{"role":"user","content":1}`), "messages[0]", "content"},
		"a custom call":           {message(`{"role":"assistant","tool_calls":[{"custom":{}}]}`), "messages[0]", "type custom"},
		"a field in another case": {with(`"Messages":[]`), "Messages", "write messages"},
		"a role in another case":  {message(`{"role":"user","Role":"system"}`), "messages[0]", "role is spelled"},
		"text in another case": {
			message(`{"role":"user","content":[{"type":"text","text":"a","teXt":"b"}]}`), "messages[0]", "text is",
		},
		"arguments in another case": {
			message(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","Arguments":"{}"}}]}`),
			"messages[0]", "arguments is",
		},
		"a tool in another case": {with(`"tools":[{"function":{"name":"f","Name":"g"}}]`), "tools[0]", "name of"},
		"two limits":             {with(`"max_completion_tokens":1,"max_tokens":2`), "max_tokens", "not both"},
		"too many parts":         {message(`{"role":"user","content":[` + strings.Repeat(`{},`, maxItems) + `{}]}`), "messages[0]", "more than"},
		"too many tools":         {with(`"tools":[` + strings.Repeat(`{},`, maxItems) + `{}]`), "tools", "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Protocol{}.ParseRequest([]byte(c.body))
			require.ErrorContains(t, err, c.want)
			var failure *wire.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, wire.CodeInvalid, failure.Code)
			require.Equal(t, c.param, failure.Param)
		})
	}
}

// FuzzRequest checks that a request keeps its bytes if nothing changes it, and that a request with
// changed texts can be parsed and has these texts.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(history))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"n":1,"tools":[{"function":{"name":"f"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Protocol{}.ParseRequest(body)
		if err != nil {
			return
		}
		same, err := r.Encode(changed(r.Call()))
		require.NoError(t, err)
		require.Equal(t, string(body), string(same))

		next := changed(r.Call())
		for i := range next.Messages {
			m := &next.Messages[i]
			m.Content = redacted(m.Content)
			m.ReasoningContent = strings.ReplaceAll(m.ReasoningContent, "e", "[\"]")
		}
		text, err := r.Encode(next)
		require.NoError(t, err)
		again, err := Protocol{}.ParseRequest(text)
		require.NoError(t, err)
		got := again.Call()
		require.Len(t, got.Messages, len(next.Messages))
		for i := range got.Messages {
			require.Equal(t, next.Messages[i].Content.String(), got.Messages[i].Content.String())
			require.Equal(t, next.Messages[i].ToolCalls, got.Messages[i].ToolCalls)
		}
		require.Equal(t, next.Params, got.Params)
		require.Equal(t, next.Tools, got.Tools)

		next.Messages = append([]abi.Message{{Role: abi.RoleSystem, Content: abi.Text("Note")}}, next.Messages...)
		if text, err = r.Encode(next); err == nil {
			_, err = Protocol{}.ParseRequest(text)
			require.NoError(t, err)
		}
	})
}

// redacted returns content in which the text of known parts is changed.
func redacted(c abi.Content) abi.Content {
	if c.IsNull() {
		return c
	}
	if !c.IsParts() {
		return abi.Text(strings.ReplaceAll(c.String(), "e", "[\"]"))
	}
	parts := slices.Clone(c.Parts())
	for i := range parts {
		if !wire.Opaque(&parts[i]) {
			parts[i].Text = strings.ReplaceAll(parts[i].Text, "e", "[\"]")
		}
	}
	return abi.Parts(parts...)
}

// TestCallsInParts checks that calls which a client repeats in a part of a content do not reach the upstream,
// since modules do not see them there.
func TestCallsInParts(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[` +
		`{"type":"text","text":"x","tool_calls":[{"id":"a","function":{"arguments":"secret"}}],"z":1}]}]}`
	r, err := Protocol{}.ParseRequest([]byte(body))
	require.NoError(t, err)
	got, err := r.Encode(r.Call())
	require.NoError(t, err)
	require.Equal(t, `{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[`+
		`{"type":"text","text":"x","z":1}]}]}`, string(got))
}
