package responses

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// codexRequest has the shape of a request in Codex's code mode.
const codexRequest = `{"model":"gpt-6", "stream":true,"store":false,"include":["reasoning.encrypted_content"],
 "reasoning":{"effort":"medium","summary":"auto"},"text":{"verbosity":"low"},"x_unknown":{"b":1.0,"a":[ ]},
 "input":[
  {"type":"additional_tools","role":"developer","tools":[
    {"type":"namespace","name":"functions","tools":[
      {"type":"custom","name":"exec","description":"Run a program","format":{"type":"grammar"}},
      {"type":"function","name":"wait","parameters":{"type":"object"}}]},
    {"type":"namespace","name":"crm","tools":[{"type":"function","name":"find","parameters":{"type":"object"}}]},
    {"type":"web_search"}]},
  {"role":"developer","content":[{"type":"input_text","text":"Be brief."}]},
  {"type":"message","role":"user","content":[{"type":"input_text","text":"List files", "prompt_cache_breakpoint":{"mode":"explicit"}},
    {"type":"input_image","image_url":"data:x","detail":"low"}]},
  {"type":"reasoning","id":"rs_1","summary":[],"content":null,"encrypted_content":"gAA="},
  {"type":"message","role":"assistant","id":"msg_1","content":[{"type":"output_text","text":"Let me look.","annotations":[],"logprobs":[{"token":"Let"}]}]},
  {"type":"custom_tool_call","id":"ctc_1","call_id":"call_1","name":"exec","input":"text(\"\\u0061\")","status":"completed"},
  {"type":"function_call","id":"fc_2","call_id":"call_2","name":"find","namespace":"crm","arguments":"{\"q\":1}"},
  {"type":"custom_tool_call_output","call_id":"call_1","output":[{"type":"input_text","text":"a.txt"}]},
  {"type":"function_call_output","call_id":"call_2","output":"none"}
 ]}`

func parse(t *testing.T, body string) wire.Request {
	r, err := Protocol{}.ParseRequest([]byte(body))
	require.NoError(t, err)
	return r
}

// next returns a copy of a call that a test may change.
func next(r wire.Request) *wire.Call {
	c := *r.Call()
	c.Messages, c.Tools = slices.Clone(c.Messages), slices.Clone(c.Tools)
	params := abi.Params{}
	for name, v := range c.Params {
		params[name] = v
	}
	c.Params = params
	return &c
}

func TestParseRequest(t *testing.T) {
	r := parse(t, codexRequest)
	c := r.Call()
	require.Equal(t, "gpt-6", c.Model)
	require.True(t, c.Stream)
	var lines []string
	for _, m := range c.Messages {
		line := m.ID + " " + m.Role
		for _, p := range m.Content.Parts() {
			line += " " + p.Type + "=" + p.Text
		}
		for _, call := range m.ToolCalls {
			line += " " + call.ID + "=" + call.Function.Name + call.Function.Arguments
		}
		lines = append(lines, strings.TrimSpace(line+" "+m.Name))
	}
	require.Equal(t, []string{
		"item-0 developer additional_tools=",
		"item-1 developer text=Be brief.",
		"item-2 user text=List files image_url=",
		`item-3 assistant reasoning= text=Let me look. call_1=exec{"input":"text(\"\\u0061\")"} call_2=crm.find{"q":1}`,
		"item-7 tool text=a.txt exec",
		"item-8 tool text=none crm.find",
	}, lines)
	var names []string
	for _, tool := range c.Tools {
		names = append(names, tool.Name)
	}
	require.Equal(t, []string{"exec", "wait", "crm.find"}, names)
	require.Equal(t, `"medium"`, string(c.Params["reasoning_effort"]))
	require.Equal(t, `{"b":1.0,"a":[ ]}`, string(c.Params["x_unknown"]))
	same, err := r.Encode(next(r))
	require.NoError(t, err)
	require.Equal(t, codexRequest, string(same))
}

func TestParseRequestRejects(t *testing.T) {
	for name, c := range map[string]struct{ body, param string }{
		"not JSON":               {`{`, ""},
		"no object":              {`[]`, ""},
		"duplicate name":         {`{"model":"a","model":"b"}`, ""},
		"stored response":        {`{"previous_response_id":"resp_1"}`, "previous_response_id"},
		"stored conversation":    {`{"conversation":"conv_1"}`, "conversation"},
		"stored prompt":          {`{"prompt":{"id":"p"}}`, "prompt"},
		"background":             {`{"background":true}`, "background"},
		"model":                  {`{"model":1}`, "model"},
		"instructions":           {`{"instructions":[]}`, "instructions"},
		"input":                  {`{"input":1}`, "input"},
		"item":                   {`{"input":[1]}`, "input[0]"},
		"item without a type":    {`{"input":[{"x":1}]}`, "input[0]"},
		"item that is a part":    {`{"input":[{"type":"file"}]}`, "input[0].type"},
		"role":                   {`{"input":[{"role":"tool","content":""}]}`, "input[0].role"},
		"content":                {`{"input":[{"role":"user","content":1}]}`, "input[0].content"},
		"text":                   {`{"input":[{"role":"user","content":[{"type":"input_text"}]}]}`, "input[0].content[0]"},
		"call without arguments": {`{"input":[{"type":"function_call","call_id":"1","name":"a"}]}`, "input[0].arguments"},
		"result without call":    {`{"input":[{"type":"function_call_output","output":""}]}`, "input[0].call_id"},
		"other case":             {`{"Model":"a"}`, "request"},
		"other case in an item":  {`{"input":[{"role":"user","Content":"x"}]}`, "input[0]"},
		"tools":                  {`{"tools":{}}`, "tools"},
		"tool without a name":    {`{"tools":[{"type":"function"}]}`, "tools"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Protocol{}.ParseRequest([]byte(c.body))
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, wire.CodeInvalid, e.Code)
			require.Equal(t, c.param, e.Param)
		})
	}
}

// TestEncode checks that a change of a module changes exactly the text that it concerns.
func TestEncode(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(c *wire.Call)
		old, new string // the text in the request, and its replacement
	}{
		"model":  {func(c *wire.Call) { c.Model = "b" }, `"gpt-6"`, `"b"`},
		"stream": {func(c *wire.Call) { c.Stream = false }, `"stream":true`, `"stream":false`},
		"text of a part": {func(c *wire.Call) {
			c.Messages[2].Content = abi.Parts(abi.Part{Type: "text", Text: "List [FILES]"}, c.Messages[2].Content.Parts()[1])
		}, `"List files"`, `"List [FILES]"`},
		"part removed": {func(c *wire.Call) { c.Messages[2].Content = abi.Parts(c.Messages[2].Content.Parts()[0]) },
			",\n" + `    {"type":"input_image","image_url":"data:x","detail":"low"}`, ""},
		"part added": {func(c *wire.Call) {
			parts := slices.Clone(c.Messages[1].Content.Parts())
			c.Messages[1].Content = abi.Parts(append(parts, abi.Part{Type: "text", Text: "Now."})...)
		}, `"Be brief."}`, `"Be brief."},{"type":"input_text","text":"Now."}`},
		"text after reasoning, with its log probabilities": {func(c *wire.Call) {
			c.Messages[3].Content = abi.Parts(c.Messages[3].Content.Parts()[0], abi.Part{Type: "text", Text: "Look."})
		}, `"Let me look.","annotations":[],"logprobs":[{"token":"Let"}]`, `"Look.","annotations":[],"logprobs":[]`},
		"input of a custom call": {func(c *wire.Call) {
			calls := slices.Clone(c.Messages[3].ToolCalls)
			calls[0].Function.Arguments = `{"input": "text(1)"}`
			c.Messages[3].ToolCalls = calls
		}, `"text(\"\\u0061\")"`, `"text(1)"`},
		"arguments of a call": {func(c *wire.Call) {
			calls := slices.Clone(c.Messages[3].ToolCalls)
			calls[1].Function.Arguments = `{"q":2}`
			c.Messages[3].ToolCalls = calls
		}, `"{\"q\":1}"`, `"{\"q\":2}"`},
		"output that is a string": {func(c *wire.Call) { c.Messages[5].Content = abi.Text("some") }, `"output":"none"`, `"output":"some"`},
		"output of parts": {func(c *wire.Call) { c.Messages[4].Content = abi.Parts(abi.Part{Type: "text", Text: "b.txt"}) },
			`"a.txt"`, `"b.txt"`},
		"parameter":         {func(c *wire.Call) { c.Params["reasoning_effort"] = abi.JSON(`"low"`) }, `"medium"`, `"low"`},
		"parameter removed": {func(c *wire.Call) { c.Params["verbosity"] = nil }, `{"verbosity":"low"}`, `{}`},
		"parameter added": {func(c *wire.Call) { c.Params["max_tokens"] = abi.JSON("5") },
			"\n ]}", "\n ],\"max_output_tokens\":5}"},
		"tool choice": {func(c *wire.Call) {
			c.Params["tool_choice"] = abi.JSON(`{"type":"function","function":{"name":"exec"}}`)
		}, "\n ]}", "\n ],\"tool_choice\":{\"type\":\"custom\",\"name\":\"exec\"}}"},
		"description": {func(c *wire.Call) { c.Tools[0].Description = "Run" }, `"description":"Run a program"`, `"description":"Run"`},
		"tool added":  {func(c *wire.Call) { c.Tools = append(c.Tools, abi.Tool{Name: "now", Description: "Time"}) }, "\n ]}", "\n ]" + `,"tools":[{"type":"function","name":"now","description":"Time","parameters":{"type":"object","properties":{}},"strict":false}]}`},
		"response format": {func(c *wire.Call) {
			c.Params["response_format"] = abi.JSON(`{"type":"json_schema","json_schema":{"name":"n","schema":{}}}`)
		}, `{"verbosity":"low"}`, `{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{}}}`},
		"same value, written anew": {func(c *wire.Call) { c.Params["x_unknown"] = abi.JSON(`{"a":[],"b":1}`) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, codexRequest)
			n := next(r)
			c.change(n)
			got, err := r.Encode(n)
			require.NoError(t, err)
			require.Contains(t, codexRequest, c.old)
			require.Equal(t, compact(strings.Replace(codexRequest, c.old, c.new, 1)), compact(string(got)))
			parse(t, string(got))
		})
	}
}

// compact removes the white space between the lines of a request.
func compact(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimSpace(line))
	}
	return b.String()
}

func TestEncodeMessages(t *testing.T) {
	const head, exchange = `{"role":"user","content":"Hi"}`,
		`{"type":"reasoning","id":"rs_1"},{"type":"function_call","call_id":"c1","name":"a","arguments":"{}"},` +
			`{"type":"function_call","call_id":"c2","name":"b","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"c1","output":"1"},{"type":"function_call_output","call_id":"c2","output":"2"}`
	const body = `{"instructions":"Be brief.","input":[` + head + `,` + exchange + `]}`
	for name, c := range map[string]struct {
		change func(c *wire.Call)
		want   string
	}{
		"exchange removed": {func(c *wire.Call) { c.Messages = c.Messages[:2] }, `{"instructions":"Be brief.","input":[` + head + `]}`},
		"call and result removed": {func(c *wire.Call) {
			c.Messages[2].ToolCalls = c.Messages[2].ToolCalls[:1]
			c.Messages = c.Messages[:4]
		}, `{"instructions":"Be brief.","input":[` + head + `,` + exchange[:strings.Index(exchange, `,{"type":"function_call","call_id":"c2"`)] +
			`,{"type":"function_call_output","call_id":"c1","output":"1"}]}`},
		"instructions changed": {func(c *wire.Call) { c.Messages[0].Content = abi.Text("Be nice.") },
			strings.Replace(body, "brief", "nice", 1)},
		"instructions removed": {func(c *wire.Call) { c.Messages = c.Messages[1:] }, `{"input":[` + head + `,` + exchange + `]}`},
		"system message added": {func(c *wire.Call) { c.Messages = slices.Insert(c.Messages, 1, abi.System("Now.")) },
			`{"instructions":"Be brief.","input":[{"type":"message","role":"system","content":"Now."},` + head + `,` + exchange + `]}`},
		"exchange added": {func(c *wire.Call) {
			c.Messages = append(c.Messages, abi.Message{Role: abi.RoleAssistant, Content: abi.Text("So."), ToolCalls: []abi.ToolCall{abi.NewToolCall("c3", "a", "{}")}},
				abi.ToolMessage("c3", "a", abi.Text("3")), abi.User("And?"))
		}, `{"instructions":"Be brief.","input":[` + head + `,` + exchange + `,{"type":"message","role":"assistant","content":"So."},` +
			`{"type":"function_call","call_id":"c3","name":"a","arguments":"{}"},{"type":"function_call_output","call_id":"c3","output":"3"},` +
			`{"type":"message","role":"user","content":"And?"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, body)
			n := next(r)
			c.change(n)
			got, err := r.Encode(n)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestEncodeStringInput(t *testing.T) {
	r := parse(t, `{"input":"Hi"}`)
	n := next(r)
	n.Messages[0].Content = abi.Text("Ho")
	got, err := r.Encode(n)
	require.NoError(t, err)
	require.Equal(t, `{"input":"Ho"}`, string(got))
	n = next(r)
	n.Messages = append(n.Messages, abi.Assistant("Hello"))
	got, err = r.Encode(n)
	require.NoError(t, err)
	require.Equal(t, `{"input":[{"type":"message","role":"user","content":"Hi"},`+
		`{"type":"message","role":"assistant","content":"Hello"}]}`, string(got))
}

func TestEncodeRejects(t *testing.T) {
	reasoning := func(c *wire.Call) abi.Part { return c.Messages[3].Content.Parts()[0] }
	for name, change := range map[string]func(c *wire.Call){
		"opaque part removed": func(c *wire.Call) { c.Messages[3].Content = abi.Text("Let me look.") },
		"opaque part changed": func(c *wire.Call) {
			p := reasoning(c)
			p.Unknown = slices.Clone(p.Unknown)
			p.Unknown[len(p.Unknown)-1].Value = abi.JSON(`"gAB="`)
			c.Messages[3].Content = abi.Parts(p, c.Messages[3].Content.Parts()[1])
		},
		"opaque part moved": func(c *wire.Call) {
			c.Messages[3].Content = abi.Parts(c.Messages[3].Content.Parts()[1], reasoning(c))
		},
		"opaque part copied": func(c *wire.Call) { c.Messages[1].Content = abi.Parts(reasoning(c)) },
		"opaque part of a new message": func(c *wire.Call) {
			c.Messages = append(c.Messages, abi.Message{Role: abi.RoleAssistant, Content: abi.Parts(reasoning(c))})
		},
		"message returned twice":  func(c *wire.Call) { c.Messages = append(c.Messages, c.Messages[1]) },
		"call without its result": func(c *wire.Call) { c.Messages = c.Messages[:5] },
		"result without its call": func(c *wire.Call) { c.Messages = slices.Delete(c.Messages, 3, 4) },
		"reasoning without its item": func(c *wire.Call) {
			c.Messages[3].Content, c.Messages[3].ToolCalls = abi.Parts(reasoning(c)), nil
			c.Messages = c.Messages[:4]
		},
		"reasoning in front of a user's message": func(c *wire.Call) {
			c.Messages[3].Content, c.Messages[3].ToolCalls = abi.Parts(reasoning(c)), nil
			c.Messages = append(c.Messages[:4], abi.User("And?"))
		},
		"unknown role": func(c *wire.Call) { c.Messages[1].Role = "narrator" },
		"image of the assistant": func(c *wire.Call) {
			c.Messages = append(c.Messages, abi.Message{Role: abi.RoleAssistant, Content: abi.Parts(abi.Part{Type: abi.PartImage, ImageURL: abi.JSON(`{"url":"x"}`)})})
		},
		"arguments of a custom tool": func(c *wire.Call) {
			calls := slices.Clone(c.Messages[3].ToolCalls)
			calls[0].Function.Arguments = `{"program":"x"}`
			c.Messages[3].ToolCalls = calls
		},
		"reasoning written by a module": func(c *wire.Call) { c.Messages[3].ReasoningContent = "Hm." },
		"parameter without equivalent":  func(c *wire.Call) { c.Params["stop"] = abi.JSON(`["x"]`) },
		"parameter that is not one":     func(c *wire.Call) { c.Params["previous_response_id"] = abi.JSON(`"resp_1"`) },
		"parameters of a custom tool":   func(c *wire.Call) { c.Tools[0].Parameters = abi.JSON(`{}`) },
		"tool added twice":              func(c *wire.Call) { c.Tools = append(c.Tools, c.Tools[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, codexRequest)
			n := next(r)
			change(n)
			_, err := r.Encode(n)
			var e *wire.Error
			require.True(t, errors.As(err, &e), "%v", err)
			require.Equal(t, wire.CodeModule, e.Code)
		})
	}
}

func TestRemovedTools(t *testing.T) {
	r := parse(t, codexRequest)
	n := next(r)
	n.Tools = n.Tools[:1]
	got, err := r.Encode(n)
	require.NoError(t, err)
	again := parse(t, string(got))
	require.Equal(t, n.Tools, again.Call().Tools)
	require.Contains(t, string(got), `{"type":"web_search"}`)
	require.NotContains(t, string(got), `"crm","tools"`)
	require.Equal(t, len(r.Call().Messages), len(again.Call().Messages))
}

func TestEncodeUnknownPart(t *testing.T) {
	const body = `{"input":[{"role":"user","content":[{"type":"input_video","url":"v"},{"type":"input_text","text":"Hi"}]}]}`
	r := parse(t, body)
	video := r.Call().Messages[0].Content.Parts()[0]
	n := next(r)
	n.Messages[0].Content = abi.Parts(video, abi.Part{Type: "text", Text: "Ho"}, abi.Part{Type: "text", Text: "!"})
	got, err := r.Encode(n)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(body, `{"type":"input_text","text":"Hi"}`,
		`{"type":"input_text","text":"Ho"},{"type":"input_text","text":"!"}`, 1), string(got))
	for _, parts := range [][]abi.Part{{{Type: "text", Text: "Hi"}}, {video, video}} {
		n.Messages[0].Content = abi.Parts(parts...)
		_, err = r.Encode(n)
		require.Error(t, err)
	}
}

func TestEncodeResultOfCustomTool(t *testing.T) {
	r := parse(t, codexRequest)
	n := next(r)
	n.Messages[4] = abi.ToolMessage("call_1", "exec", abi.Text("b.txt"))
	got, err := r.Encode(n)
	require.NoError(t, err)
	require.Contains(t, string(got), `{"type":"custom_tool_call_output","call_id":"call_1","output":"b.txt"}`)
}
