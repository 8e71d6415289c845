package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// agentRequest is a request with the features that coding agents use, with unusual white space and spelling.
const agentRequest = `{
 "model":"m-1", "max_tokens":1.0e3,
 "system":[{"type":"text","text":"x-billing: 1"},{"type":"text","text":"Be kind to Ann.","cache_control":{"type":"ephemeral"}}],
 "messages":[
  {"role":"user","content":"I am \u0041nn."},
  {"role":"assistant","content":[{"type":"thinking","thinking":"Look.","signature":"c2ln"},{"type":"text","text":"Looking, Ann.","new":[ 1 ]},
   {"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command" : "ls"},"caller":{"type":"direct"}},
   {"type":"tool_use","id":"toolu_2","name":"Read","input":{}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a.txt of Ann","is_error":false},
   {"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"of Ann"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},
   {"type":"text","text":"Go on.","cache_control":{"type":"ephemeral"}}]},
  {"role":"system","content":"Now brief.","output_config":{"effort":"low"}},
  {"role":"assistant","content":"Done."},
  {"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"},"cache_control":null},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"by Ann"},"title":"a"}]}
 ],
 "tools":[{"name":"Bash","description":"Runs.","input_schema":{"$schema":"x","type":"object"},"defer_loading":true},{"name":"Read","input_schema":{"type":"object"}},
  {"type":"web_search_20250305","name":"web_search"}],
 "tool_choice":{"type":"tool","name":"Bash","disable_parallel_tool_use":true},
 "stop_sequences":["END"], "thinking":{"type":"adaptive"}, "metadata":{"user_id":"{\"a\":1}"}, "stream":true
}
`

// parse parses a valid request.
func parse(t *testing.T, body string) wire.Request {
	t.Helper()
	r, err := Protocol{}.ParseRequest([]byte(body))
	require.NoError(t, err)
	return r
}

// copied returns a copy of a call whose messages and parts can be changed. Its JSON went through another
// encoder, as that of a module.
func copied(t *testing.T, call *wire.Call) *wire.Call {
	t.Helper()
	next := *call
	b, err := json.Marshal(call.Messages)
	require.NoError(t, err)
	next.Messages = nil
	require.NoError(t, json.Unmarshal(b, &next.Messages))
	next.Tools = slices.Clone(call.Tools)
	next.Params = abi.Params{}
	for name, value := range call.Params {
		next.Params[name] = value
	}
	return &next
}

func TestCall(t *testing.T) {
	call := parse(t, agentRequest).Call()
	got, err := json.MarshalIndent(call, "", " ")
	require.NoError(t, err)
	require.JSONEq(t, `{"Model":"m-1","Stream":true,
	 "Params":{"max_tokens":1.0e3,"thinking":{"type":"adaptive"},"metadata":{"user_id":"{\"a\":1}"},"stop":["END"],
	  "tool_choice":{"type":"function","function":{"name":"Bash"}},"parallel_tool_calls":false},
	 "Tools":[{"name":"Bash","description":"Runs.","parameters":{"$schema":"x","type":"object"}},{"name":"Read","parameters":{"type":"object"}}],
	 "Messages":[
	  {"id":"system","role":"system","content":[{"type":"text","text":"x-billing: 1"},
	   {"type":"text","text":"Be kind to Ann.","cache_control":{"type":"ephemeral"}}]},
	  {"id":"m0","role":"user","content":"I am Ann."},
	  {"id":"m1","role":"assistant","content":[{"type":"thinking","thinking":"Look.","signature":"c2ln"},{"type":"text","text":"Looking, Ann.","new":[1]}],
	   "tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"Bash","arguments":"{\"command\" : \"ls\"}"}},
	    {"id":"toolu_2","type":"function","function":{"name":"Read","arguments":"{}"}}]},
	  {"id":"m2.0","role":"tool","content":"a.txt of Ann","name":"Bash","tool_call_id":"toolu_1"},
	  {"id":"m2.1","role":"tool","content":[{"type":"text","text":"of Ann"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}],
	   "name":"Read","tool_call_id":"toolu_2"},
	  {"id":"m2","role":"user","content":[{"type":"text","text":"Go on.","cache_control":{"type":"ephemeral"}}]},
	  {"id":"m3","role":"system","content":"Now brief."},
	  {"id":"m4","role":"assistant","content":"Done."},
	  {"id":"m5","role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"},"cache_control":null},
	   {"type":"text","text":"by Ann","title":"a"}]}]}`, string(got))
}

// TestEncode changes the call of agentRequest. Each change names the text of the body that it replaces,
// so that all other bytes stay.
func TestEncode(t *testing.T) {
	type replaced struct{ old, with string }
	for name, c := range map[string]struct {
		change func(c *wire.Call)
		want   []replaced
	}{
		"nothing": {change: func(*wire.Call) {}},
		"text everywhere": {
			change: func(c *wire.Call) {
				for i := range c.Messages {
					m := &c.Messages[i]
					if !m.Content.IsParts() {
						m.Content = abi.Text(strings.ReplaceAll(m.Content.String(), "Ann", "[N]"))
						continue
					}
					for k := range m.Content.Parts() {
						p := &m.Content.Parts()[k]
						p.Text = strings.ReplaceAll(p.Text, "Ann", "[N]")
					}
				}
			},
			want: []replaced{
				{`kind to Ann`, `kind to [N]`},
				{`I am \u0041nn`, `I am [N]`},
				{`Looking, Ann`, `Looking, [N]`},
				{`a.txt of Ann`, `a.txt of [N]`},
				{`"of Ann"`, `"of [N]"`},
				{`by Ann`, `by [N]`},
			},
		},
		"parts as a string, without unknown fields": {
			change: func(c *wire.Call) { c.Messages[5].Content = abi.Text("Stop.") },
			want:   []replaced{{`"Go on."`, `"Stop."`}},
		},
		"a call": {
			change: func(c *wire.Call) { c.Messages[2].ToolCalls[0].Function.Arguments = `{"command":"pwd"}` },
			want:   []replaced{{`{"command" : "ls"}`, `{"command":"pwd"}`}},
		},
		"an image": {
			change: func(c *wire.Call) {
				c.Messages[4].Content.Parts()[1].ImageURL = []byte(`{"url":"data:image/gif;base64,BBBB"}`)
			},
			want: []replaced{{`"media_type":"image/png","data":"AAAA"`, `"media_type":"image/gif","data":"BBBB"`}},
		},
		"a cache breakpoint": {
			change: func(c *wire.Call) {
				p := &c.Messages[0].Content.Parts()[0]
				p.Unknown = abi.Fields{{Name: "cache_control", Value: []byte(`{"type":"ephemeral"}`)}}
			},
			want: []replaced{{`"x-billing: 1"`, `"x-billing: 1","cache_control":{"type":"ephemeral"}`}},
		},
		"a string becomes parts": {
			change: func(c *wire.Call) {
				c.Messages[1].Content = abi.Parts(abi.Part{Type: "text", Text: "I am Ann."}, abi.Part{Type: "text", Text: "Hi."})
			},
			want: []replaced{{
				`"content":"I am \u0041nn."`,
				`"content":[{"type":"text","text":"I am \u0041nn."},{"type":"text","text":"Hi."}]`,
			}},
		},
		"parts added beside an opaque one": {
			change: func(c *wire.Call) {
				m := &c.Messages[2]
				m.Content = abi.Parts(append(slices.Clone(m.Content.Parts()), abi.Part{Type: "text", Text: "More."})...)
			},
			want: []replaced{{
				",\n   {\"type\":\"tool_use\",\"id\":\"toolu_1\"",
				`,{"type":"text","text":"More."},{"type":"tool_use","id":"toolu_1"`,
			}, {",\n   {\"type\":\"tool_use\",\"id\":\"toolu_2\"", `,{"type":"tool_use","id":"toolu_2"`}},
		},
		"the system instruction removed": {
			change: func(c *wire.Call) { c.Messages = c.Messages[1:] },
			want: []replaced{
				{"{\n \"model\"", "{\"model\""},
				{", \"max_tokens\"", ",\"max_tokens\""},
				{"1.0e3,\n \"system\":[{\"type\":\"text\",\"text\":\"x-billing: 1\"},{\"type\":\"text\",\"text\":\"Be kind to Ann.\"," +
					"\"cache_control\":{\"type\":\"ephemeral\"}}],\n \"messages\"", "1.0e3,\"messages\""},
				{"],\n \"tools\"", `],"tools"`},
				{"],\n \"tool_choice\"", `],"tool_choice"`},
				{"},\n \"stop_sequences\":[\"END\"], \"thinking\"", `},"stop_sequences":["END"],"thinking"`},
				{`, "metadata"`, `,"metadata"`},
				{", \"stream\":true\n}", `,"stream":true}`},
			},
		},
		"parameters": {
			change: func(c *wire.Call) {
				c.Params["stop"] = []byte(`"X"`)
				c.Params["temperature"] = []byte(`0.5`)
				c.Params["tool_choice"] = []byte(`"required"`)
				c.Params["parallel_tool_calls"] = []byte(`null`)
				c.Model = "m-2"
				c.Stream = false
			},
			want: []replaced{
				{`"m-1"`, `"m-2"`},
				{`["END"]`, `["X"]`},
				{`{"type":"tool","name":"Bash","disable_parallel_tool_use":true}`, `{"type":"any"}`},
				{"\"stream\":true\n}", "\"stream\":false\n,\"temperature\":0.5}"},
			},
		},
		"tools": {
			change: func(c *wire.Call) {
				c.Tools = []abi.Tool{c.Tools[0], {Name: "Ask", Description: "Asks."}}
				c.Tools[0].Description = "Runs a command."
			},
			want: []replaced{
				{`"Runs."`, `"Runs a command."`},
				{",{\"name\":\"Read\",\"input_schema\":{\"type\":\"object\"}},\n  {\"type\":\"web", `,{"type":"web`},
				{`"name":"web_search"}`, `"name":"web_search"},{"name":"Ask","description":"Asks.","input_schema":{"type":"object"}}`},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, agentRequest)
			next := copied(t, r.Call())
			c.change(next)
			got, err := r.Encode(next)
			require.NoError(t, err)
			want := agentRequest
			for _, x := range c.want {
				require.Equal(t, 1, strings.Count(want, x.old), x.old)
				want = strings.Replace(want, x.old, x.with, 1)
			}
			require.Equal(t, want, string(got))
		})
	}
}

// TestEncodeMessages changes the list of messages, and compares the values of the fields that changed.
func TestEncodeMessages(t *testing.T) {
	remove := func(c *wire.Call, from, to int) { c.Messages = slices.Delete(c.Messages, from, to) }
	insert := func(c *wire.Call, at int, m ...abi.Message) { c.Messages = slices.Insert(c.Messages, at, m...) }
	for name, c := range map[string]struct {
		change       func(c *wire.Call)
		system, list string // the new values of the fields; "" if a field does not change
	}{
		"an exchange removed": {
			change: func(c *wire.Call) { remove(c, 2, 5) },
			list: `["m0",{"role":"user","content":[{"type":"text","text":"Go on.","cache_control":{"type":"ephemeral"}}]},
			 "m3","m4","m5"]`,
		},
		"a call and its result removed": {
			change: func(c *wire.Call) {
				c.Messages[2].ToolCalls = c.Messages[2].ToolCalls[:1]
				remove(c, 4, 5)
			},
			list: `["m0",{"role":"assistant","content":["m1.0","m1.1","m1.2"]},{"role":"user","content":["m2.0","m2.2"]},"m3","m4","m5"]`,
		},
		"a call and its result added": {
			change: func(c *wire.Call) {
				c.Messages[2].ToolCalls = append(c.Messages[2].ToolCalls, abi.NewToolCall("n1", "Ask", `{"a":1}`))
				insert(c, 5, abi.ToolMessage("n1", "Ask", abi.Text("Yes.")))
			},
			list: `["m0",{"role":"assistant","content":["m1.0","m1.1","m1.2","m1.3",{"type":"tool_use","id":"n1","name":"Ask","input":{"a":1}}]},
			 {"role":"user","content":["m2.0","m2.1",{"type":"tool_result","tool_use_id":"n1","content":[{"type":"text","text":"Yes."}]},"m2.2"]},
			 "m3","m4","m5"]`,
		},
		"a summary instead of the beginning": {
			change: func(c *wire.Call) {
				remove(c, 1, 7)
				insert(c, 1, abi.User("A summary."))
			},
			list: `[{"role":"user","content":[{"type":"text","text":"A summary."}]},"m4","m5"]`,
		},
		"instructions at the beginning": {
			change: func(c *wire.Call) {
				insert(c, 0, abi.System("First."))
				insert(c, 2, abi.Message{Role: abi.RoleDeveloper, Content: abi.Text("Third.")})
			},
			system: `[{"type":"text","text":"First."},"0","1",{"type":"text","text":"Third."}]`,
		},
		"instructions among the messages": {
			change: func(c *wire.Call) { insert(c, 7, abi.System("New.")) },
			list:   `["m0","m1","m2","m3",{"role":"system","content":[{"type":"text","text":"New."}]},"m4","m5"]`,
		},
		"an answer added": {
			change: func(c *wire.Call) {
				insert(c, 2, abi.Message{
					Role: abi.RoleAssistant, Content: abi.Text("Wait."),
					ToolCalls: []abi.ToolCall{abi.NewToolCall("n1", "Ask", "")},
				}, abi.ToolMessage("n1", "Ask", abi.Content{}), abi.User("Well."))
			},
			list: `["m0",{"role":"assistant","content":[{"type":"text","text":"Wait."},{"type":"tool_use","id":"n1","name":"Ask","input":{}}]},
			 {"role":"user","content":[{"type":"tool_result","tool_use_id":"n1","content":[]}]},
			 {"role":"user","content":[{"type":"text","text":"Well."}]},"m1","m2","m3","m4","m5"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, agentRequest)
			next := copied(t, r.Call())
			c.change(next)
			got, err := r.Encode(next)
			require.NoError(t, err)
			old, now := decode(t, []byte(agentRequest)), decode(t, got)
			want := decode(t, []byte(agentRequest))
			if c.list != "" {
				want["messages"] = refer(decodeAny(t, c.list), old)
			}
			if c.system != "" {
				want["system"] = refer(decodeAny(t, c.system), map[string]any{"messages": old["system"]})
			}
			require.Equal(t, want, now)
		})
	}
}

// refer replaces strings such as "m1" and "m1.0" by the message or the block of the request, and "0" by
// a block of system.
func refer(v any, request map[string]any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = refer(v[i], request)
		}
	case map[string]any:
		if list, ok := v["content"].([]any); ok && v["role"] != nil {
			v["content"] = refer(list, request)
		}
	case string:
		list := request["messages"].([]any)
		message, block, ok := strings.Cut(strings.TrimPrefix(v, "m"), ".")
		m := list[message[0]-'0']
		if ok {
			return m.(map[string]any)["content"].([]any)[block[0]-'0']
		}
		return m
	}
	return v
}

func decode(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal(b, &v))
	return v
}

func decodeAny(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

func TestEncodeRejects(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *wire.Call)
		want   string
	}{
		"reasoning changed": {
			func(c *wire.Call) { c.Messages[2].Content.Parts()[0].Unknown[0].Value = []byte(`"Other."`) },
			`a part of type "thinking" was changed`,
		},
		"reasoning removed": {
			func(c *wire.Call) { c.Messages[2].Content = abi.Parts(c.Messages[2].Content.Parts()[1]) },
			`a part of type "thinking" was removed from its message`,
		},
		"reasoning added": {
			func(c *wire.Call) {
				c.Messages[7].Content = abi.Parts(append(c.Messages[7].Content.Parts(), c.Messages[2].Content.Parts()[0])...)
			},
			`a part of type "thinking" was added or repeated`,
		},
		"text before reasoning": {
			func(c *wire.Call) {
				m := &c.Messages[2]
				m.Content = abi.Parts(slices.Insert(m.Content.Parts(), 0, abi.Part{Type: "text", Text: "x"})...)
			},
			"a part was added before signed reasoning",
		},
		"only reasoning remains": {
			func(c *wire.Call) {
				m := &c.Messages[2]
				m.Content, m.ToolCalls = abi.Parts(m.Content.Parts()[0]), nil
				c.Messages = slices.Delete(c.Messages, 3, 5)
			},
			"all that followed signed reasoning was removed",
		},
		"a call leaves its reasoning": {
			func(c *wire.Call) { c.Messages[2].ID, c.Messages[2].Content = "", abi.Text("x") },
			`call "toolu_1" was moved away from its signed reasoning`,
		},
		"a result without its call": {
			func(c *wire.Call) { c.Messages[2].ToolCalls = c.Messages[2].ToolCalls[1:] },
			`result "toolu_1" does not follow its call`,
		},
		"a call without its result": {
			func(c *wire.Call) { c.Messages = slices.Delete(c.Messages, 3, 4) },
			`call "toolu_1" has no result`,
		},
		"another call's result": {
			func(c *wire.Call) { c.Messages[3].ToolCallID = "toolu_2" },
			`the call of result "toolu_1" was changed`,
		},
		"invalid arguments": {
			func(c *wire.Call) { c.Messages[2].ToolCalls[0].Function.Arguments = "[]" },
			`the arguments of call "toolu_1" are not a JSON object`,
		},
		"a message emptied": {
			func(c *wire.Call) { c.Messages[7].Content = abi.Text("") },
			"a message without content",
		},
		"all messages removed": {
			func(c *wire.Call) { c.Messages = c.Messages[:1] },
			"all messages were removed",
		},
		"an unknown role":    {func(c *wire.Call) { c.Messages[1] = abi.Message{Role: "x"} }, `role "x"`},
		"unsigned reasoning": {func(c *wire.Call) { c.Messages[7].ReasoningContent = "x" }, "reasoning was added"},
		"audio":              {func(c *wire.Call) { c.Messages[1].Content = abi.Parts(abi.Part{Type: "input_audio"}) }, `"input_audio"`},
		"a file's path": {func(c *wire.Call) {
			c.Messages[1].Content = abi.Parts(abi.Part{Type: "image_url", ImageURL: []byte(`{"url":"file:///etc/passwd"}`)})
		}, "data URL"},
		"a part that is a call": {func(c *wire.Call) { c.Messages[7].Content = abi.Parts(abi.Part{Type: "tool_use"}) }, `"tool_use" was added`},
		"messages as parameter": {
			func(c *wire.Call) { c.Params["messages"] = []byte("[]") },
			`"messages" is not a parameter`,
		},
		"two tools of one name": {func(c *wire.Call) { c.Tools[1].Name = "Bash" }, "used twice"},
		"a call without a name": {func(c *wire.Call) { c.Messages[2].ToolCalls[0].Function.Name = "" }, "the name of call"},
		"an image as instruction": {
			func(c *wire.Call) {
				m := abi.System("")
				m.Content = abi.Parts(abi.Part{Type: "image_url", ImageURL: []byte(`{"url":"https://x"}`)})
				c.Messages = append(c.Messages, m)
			},
			"instructions with a part that is not text",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, agentRequest)
			next := copied(t, r.Call())
			c.change(next)
			_, err := r.Encode(next)
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, wire.CodeModule, e.Code)
			require.Contains(t, e.Message, c.want)
		})
	}
}

// TestToolsRemoved checks that the choice of a tool is removed together with the tool.
func TestToolsRemoved(t *testing.T) {
	const body = `{"model":"m","messages":[],"tools":[{"name":"a"},{"name":"b"}],"tool_choice":{"type":"tool","name":"a"}}`
	for name, c := range map[string]struct {
		tools []abi.Tool
		want  string
	}{
		"the chosen tool": {[]abi.Tool{{Name: "b"}}, `{"model":"m","messages":[],"tools":[{"name":"b"}]}`},
		"another tool": {
			[]abi.Tool{{Name: "a"}},
			`{"model":"m","messages":[],"tools":[{"name":"a"}],"tool_choice":{"type":"tool","name":"a"}}`,
		},
		"all tools": {nil, `{"model":"m","messages":[],"tools":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, body)
			next := copied(t, r.Call())
			next.Tools = c.tools
			got, err := r.Encode(next)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

// TestUnpairedRequest checks that a client's request with an unpaired call or result is sent to the upstream, which
// rejects it, and is no error of a module.
func TestUnpairedRequest(t *testing.T) {
	r := parse(
		t,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]},{"role":"user","content":"a"}]}`,
	)
	next := copied(t, r.Call())
	next.Messages[1].Content = abi.Text("b")
	got, err := r.Encode(next)
	require.NoError(t, err)
	require.Equal(
		t,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]},{"role":"user","content":"b"}]}`,
		string(got),
	)
}

func TestParseRequestRejects(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"no JSON":                {`{`, "the body is not valid"},
		"an array":               {`[]`, "must be a JSON object"},
		"no model":               {`{"messages":[]}`, "model: must be a string"},
		"no messages":            {`{"model":"m"}`, "messages: must be an array"},
		"a duplicate":            {`{"model":"m","messages":[],"messages":[]}`, "duplicate"},
		"a stream as text":       {`{"model":"m","messages":[],"stream":"true"}`, "stream: must be true or false"},
		"an unknown role":        {`{"model":"m","messages":[{"role":"tool","content":"x"}]}`, "messages.0.role: must be"},
		"no content":             {`{"model":"m","messages":[{"role":"user"}]}`, "messages.0.content: must be a string or"},
		"text that is no string": {`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":1}]}]}`, "messages.0.content.0.text: must be a string"},
		"opaque text":            {`{"model":"m","messages":[{"role":"user","content":[{"type":"x","text":1}]}]}`, "messages.0.content.0.text: must be a string"},
		"a type of the ABI":      {`{"model":"m","messages":[{"role":"user","content":[{"type":"file"}]}]}`, "messages.0.content.0.type: the Messages API has no"},
		"input as text":          {`{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":"{}"}]}]}`, "messages.0.content.0.input: must be an object"},
		"a result of nothing":    {`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`, "messages.0.content.0.tool_use_id: must be"},
		"a result's content":     {`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[1]}]}]}`, "messages.0.content.0.content.0: must be an object"},
		"Text":                   {`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a","Text":"b"}]}]}`, `the field "Text" must be written as "text"`},
		"Messages":               {`{"model":"m","messages":[],"Messages":[]}`, `the field "Messages"`},
		"a long s":               {`{"model":"m","messages":[{"role":"user","content":"","toolſ":""}]}`, `must be written as "tools"`},
		"a thread":               {`{"model":"m","messages":[],"thread":{"type":"create"}}`, "thread: a thread's messages are stored"},
		"system":                 {`{"model":"m","messages":[],"system":[{}]}`, "system.content.0.type: must be"},
		"a tool twice":           {`{"model":"m","messages":[],"tools":[{"name":"a"},{"name":"a"}]}`, "tools.1.name: two tools"},
		"too many blocks": {
			`{"model":"m","messages":[{"role":"user","content":[` + strings.Repeat("{},", maxRequestBlocks) + `{}]}]}`,
			"messages.0.content: there are too many blocks",
		},
		"too many calls": {
			`{"model":"m","messages":[{"role":"assistant","content":[` +
				strings.Repeat(`{"type":"tool_use","id":"a","name":"b","input":{}},`, maxRequestCalls) +
				`{"type":"tool_use","id":"a","name":"b","input":{}}]}]}`,
			"there are too many calls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Protocol{}.ParseRequest([]byte(c.body))
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, wire.CodeInvalid, e.Code)
			require.Contains(t, e.Message, c.want)
		})
	}
}

func TestErrors(t *testing.T) {
	for code, want := range map[wire.Code]int{
		wire.CodeInvalid: 400, wire.CodeAuth: 401, wire.CodeNotFound: 404, wire.CodeTooLarge: 413,
		wire.CodeDenied: 403, wire.CodeBusy: 429, wire.CodeModule: 403, wire.CodeUpstream: 502, "new": 500,
	} {
		status, body := Protocol{}.Error(&wire.Error{Code: code, Message: `a "rule"`, Param: "model"})
		require.Equal(t, want, status)
		var v struct {
			Type  string
			Error struct{ Type, Message string }
		}
		require.NoError(t, json.Unmarshal(body, &v))
		require.Equal(t, "error", v.Type)
		require.NotEmpty(t, v.Error.Type)
		require.Equal(t, `model: a "rule"`, v.Error.Message)
	}
}

// TestThreadRejected checks the details of the error after which Anthropic's clients send all messages.
func TestThreadRejected(t *testing.T) {
	_, err := Protocol{}.ParseRequest(
		[]byte(`{"model":"m","messages":[],"thread":{"type":"continue","previous_message_id":"msg_1"}}`),
	)
	var e *wire.Error
	require.ErrorAs(t, err, &e)
	status, body := Protocol{}.Error(e)
	require.Equal(t, 400, status)
	require.Contains(t, string(body), `"details":{"error_code":"thread_unsupported_request","unsupported":[`)
}

// FuzzRequest checks that a request keeps its bytes if nothing changes it, and that a request with
// changed texts is valid and has these texts.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(agentRequest), "x")
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[]}]}`), "")
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		r, err := Protocol{}.ParseRequest(body)
		if err != nil {
			return
		}
		got, err := r.Encode(r.Call())
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, got), "a request that did not change must keep its bytes")

		next := *r.Call()
		next.Messages = slices.Clone(next.Messages)
		for i := range next.Messages {
			m := &next.Messages[i]
			if !m.Content.IsParts() {
				m.Content = abi.Text(text)
				continue
			}
			parts := slices.Clone(m.Content.Parts())
			for k := range parts {
				if parts[k].Type == abi.PartText {
					parts[k].Text = text
				}
			}
			m.Content = abi.Parts(parts...)
		}
		got, err = r.Encode(&next)
		if e := (*wire.Error)(nil); errors.As(err, &e) {
			require.Equal(t, wire.CodeModule, e.Code)
			return
		}
		require.NoError(t, err)
		again, err := Protocol{}.ParseRequest(got)
		require.NoError(t, err, "%s", got)
		require.Len(t, again.Call().Tools, len(next.Tools))
		if text != "" && strings.ToValidUTF8(text, "\uFFFD") == text {
			require.Len(t, again.Call().Messages, len(next.Messages))
			for i := range next.Messages {
				require.Equal(t, next.Messages[i].Content.String(), again.Call().Messages[i].Content.String())
			}
		}
	})
}
