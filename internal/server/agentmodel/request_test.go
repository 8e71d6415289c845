package agentmodel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/server/agentmodel"
)

// protocols holds each protocol with the part of a request that every request needs.
var protocols = map[string]struct {
	protocol     *agentmodel.Protocol
	conversation string
}{
	"chat":      {agentmodel.Chat(), `"messages":[{"role":"user","content":"hi"}]`},
	"responses": {agentmodel.Responses(), `"input":"hi"`},
	"messages":  {agentmodel.Messages(), `"max_tokens":10,"messages":[{"role":"user","content":"hi"}]`},
}

func parse(t *testing.T, name, fields string) (*agentmodel.Request, error) {
	t.Helper()
	p := protocols[name]
	return agentmodel.ParseRequest(p.protocol, fmt.Appendf(nil, `{"model":"a",%s%s}`, p.conversation, fields))
}

// TestRejectedFields checks that a field whose effect agents do not have is an error that names it.
func TestRejectedFields(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"properties":{"a":`, 300) + "{}" + strings.Repeat("}}", 300)
	for name, list := range map[string]map[string]string{
		"chat": {
			"n": `2`, "logprobs": `true`, "top_logprobs": `1`, "modalities": `["text","audio"]`, "audio": `{}`,
			"functions": `[]`, "function_call": `"auto"`, "web_search_options": `{}`, "prediction": `{}`, "store": `true`,
			"temperature": `"hot"`, "max_tokens": `0`, "seed": `1.5`, "stop": `[1]`, "stream_options": `{"x":1}`,
			"parallel_tool_calls": `1`, "metadata": `[]`, "tool_choice": `"required"`, "response_format": `{"type":"xml"}`,
			"tools": `[{"type":"custom","custom":{"name":"x"}}]`,
		},
		"responses": {
			"previous_response_id": `"x"`, "conversation": `"c"`, "prompt": `{"id":"x"}`, "background": `true`,
			"store": `"yes"`, "include": `["message.output_text.logprobs"]`, "truncation": `"auto"`, "max_tool_calls": `3`,
			"max_tokens": `3`, "response_format": `{"type":"text"}`, "text": `{"other":1}`,
			"reasoning": `{"summary":"auto"}`, "top_logprobs": `3`, "tools": `[{"type":"web_search"}]`,
			"tool_choice": `{"type":"web_search"}`,
		},
		"messages": {
			"thinking": `{"type":"enabled","budget_tokens":2000}`, "container": `"c"`, "mcp_servers": `[{"url":"x"}]`,
			"context_management": `{}`, "thread": `{}`, "output_config": `{"other":1}`, "top_k": `-1`,
			"tools": `[{"type":"web_search_20250305","name":"web_search"}]`, "tool_choice": `{"type":"any"}`,
		},
	} {
		for field, value := range list {
			_, err := parse(t, name, fmt.Sprintf(",%q:%s", field, value))
			var problem *agentmodel.Error
			require.ErrorAs(t, err, &problem, "%s %s", name, field)
			require.Equal(t, 400, problem.Status)
			require.Contains(t, problem.Param+problem.Message, field, name)
		}
	}
	for _, schema := range []string{
		`{"$ref":"https://example.com/s.json"}`, `{"$ref":"#"}`, `{"type":7}`, deep, `7`,
		`{"description":"` + strings.Repeat("x", 70<<10) + `"}`,
	} {
		_, err := parse(t, "chat", `,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":`+schema+`}}`)
		require.Error(t, err, "%.80s", schema)
	}
}

// TestParams checks which parameters of a request reach the model, under the names of chat completions.
func TestParams(t *testing.T) {
	t.Parallel()
	const tools = `,"tools":[{"type":"function","name":"f","parameters":{}}]`
	for _, c := range []struct {
		name, fields string
		want         abi.Params
		choice       string
	}{
		{"chat", `,"temperature":0.5,"max_completion_tokens":9,"stop":"x","seed":-1,"user":"u","store":false,"n":1,"logprobs":false`,
			abi.Params{"temperature": abi.JSON("0.5"), "max_tokens": abi.JSON("9"), "stop": abi.JSON(`"x"`),
				"seed": abi.JSON("-1")}, ""},
		{"chat", `,"parallel_tool_calls":true,"tool_choice":"auto","service_tier":"auto","response_format":{"type":"text"}`,
			abi.Params{}, ""},
		{"responses", `,"top_p":1,"max_output_tokens":9,"tool_choice":"required","store":false,"text":{"format":{"type":"text"}}` + tools,
			abi.Params{"top_p": abi.JSON("1"), "max_tokens": abi.JSON("9")}, `"required"`},
		{"responses", `,"tool_choice":{"type":"function","name":"f"},"reasoning":{"effort":"low"}` + tools,
			abi.Params{"reasoning_effort": abi.JSON(`"low"`)}, `{"type":"function","function":{"name":"f"}}`},
		{"responses", `,"tool_choice":"none"` + tools, abi.Params{}, ""},
		{"messages", `,"stop_sequences":["x"],"tool_choice":{"type":"any","disable_parallel_tool_use":true},"tools":[{"name":"f","input_schema":{}}]`,
			abi.Params{"max_tokens": abi.JSON("10"), "stop": abi.JSON(`["x"]`), "parallel_tool_calls": abi.JSON("false")}, `"required"`},
		{"messages", `,"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},"thinking":{"type":"disabled"}`,
			abi.Params{"max_tokens": abi.JSON("10"), "reasoning_effort": abi.JSON(`"low"`), "response_format": abi.JSON(
				`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}`)}, ""},
	} {
		q, err := parse(t, c.name, c.fields)
		require.NoError(t, err, c.fields)
		require.Equal(t, c.want, q.Params, c.fields)
		require.Equal(t, c.choice, string(q.Choice), c.fields)
		require.Equal(t, strings.Contains(c.fields, `"tools"`) && !strings.Contains(c.fields, `"none"`), len(q.Tools) == 1)
	}
}

// TestMessages checks which fields and parts a message may have, and that a result that is an error
// in the Messages API remains one.
func TestMessages(t *testing.T) {
	t.Parallel()
	read := func(name, body string) (*agentmodel.Request, error) {
		return agentmodel.ParseRequest(protocols[name].protocol, []byte(body))
	}
	q, err := read(
		"messages",
		`{"model":"a","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"hi",
		"cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"tool_use","id":"call_run_1.int_1",
		"name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_run_1.int_1",
		"is_error":true,"content":"no"}]}]}`,
	)
	require.NoError(t, err)
	require.Equal(t, "run_1", q.Run)
	require.JSONEq(t, `{"content":"no","is_error":true}`, string(q.Answers["int_1"]))

	q, err = read(
		"messages",
		`{"model":"a","max_tokens":1,"metadata":{"user_id":"u"},"messages":[{"role":"assistant","content":
		[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x",
		"is_error":true,"content":"no"},{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}`,
	)
	require.NoError(t, err)
	require.Empty(t, q.Run, "a call of another model")
	require.Equal(t, "Error: no", q.Messages[1].Content.String())
	require.Empty(t, q.Messages[2].Content.Parts()[0].Unknown)
	require.Equal(t, abi.JSON(`"u"`), q.Metadata["user_id"])

	q, err = read("responses", `{"model":"a","input":[{"type":"item_reference","id":"fc_1"},
		{"type":"function_call_output","call_id":"call_run_1.int_1","output":"seen"}]}`)
	require.NoError(t, err, "the run has the conversation")
	require.Equal(t, "run_1", q.Run)

	for body, want := range map[string]string{
		`{"model":"a","input":[{"type":"item_reference","id":"fc_1"},{"role":"user","content":"hi"}]}`:                                 "item_reference",
		`{"model":"a","input":[{"type":"reasoning","id":"rs_1","encrypted_content":"x","summary":[]},{"role":"user","content":"hi"}]}`: "reasoning",
	} {
		_, err = read("responses", body)
		require.ErrorContains(t, err, want)
	}
	_, err = read("chat", `{"model":"a","messages":[{"role":"user","content":"hi","weight":1}]}`)
	require.ErrorContains(t, err, "weight")
	q, err = read(
		"chat",
		`{"model":"a","messages":[{"role":"assistant","content":null,"refusal":"No.","annotations":[]},{"role":"user","content":"hi"}]}`,
	)
	require.NoError(t, err)
	require.Equal(t, "No.", q.Messages[0].Content.String())
}

func FuzzParseRequest(f *testing.F) {
	for kind, body := range []string{
		`{"model":"a","messages":[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"call_run_1.int_1","content":"a"}],"tools":[{"type":"function","function":{"name":"a"}}],"stream":true}`,
		`{"model":"a","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call_output","call_id":"call_run_1.int_1","output":"a"}],"text":{"format":{"type":"json_schema","name":"x","schema":{}}}}`,
		`{"model":"a","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_run_1.int_1","is_error":true}]}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}}`,
	} {
		f.Add(kind, []byte(body))
	}
	list := []*agentmodel.Protocol{agentmodel.Chat(), agentmodel.Responses(), agentmodel.Messages()}
	f.Fuzz(func(t *testing.T, kind int, b []byte) {
		q, err := agentmodel.ParseRequest(list[max(kind, -kind, 0)%len(list)], b)
		if err != nil {
			var problem *agentmodel.Error
			require.ErrorAs(t, err, &problem)
			require.NotEmpty(t, problem.Message)
			return
		}
		require.NotEmpty(t, q.Messages)
		require.Equal(t, q.Run != "", len(q.Answers) > 0)
		for name := range q.Params {
			require.NotContains(t, []string{"n", "store", "logprobs", "previous_response_id"}, name)
		}
	})
}

// TestFormats checks which formats of answers a request may ask for.
func TestFormats(t *testing.T) {
	t.Parallel()
	const list = `{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"a":{"type":"array",
		"items":{"type":"integer"}}},"required":["a"]}}}`
	for _, c := range []struct{ format, text, want string }{
		{list, `{"a":[1,2]}`, ""},
		{list, " {\"a\": []}\n", ""},
		{list, `{"a":["x"]}`, "integer"},
		{list, `{}`, "required"},
		{list, `Here it is: {"a":[]}`, "not JSON"},
		{list, `{"a":[],"a":[]}`, "duplicate"},
		{list, `{"a":[` + strings.Repeat("1,", 2_000_000) + `1]}`, "tokens"},
		{list, `{"a":[` + strings.Repeat("1,", 900_000) + `1]}`, "too large"},
		{list, strings.Repeat("[", 1000), "not JSON"},
		{`{"type":"json_object"}`, `{"b":1}`, ""},
		{`{"type":"json_object"}`, `[1]`, "not a JSON object"},
	} {
		q, err := parse(t, "chat", `,"response_format":`+c.format)
		require.NoError(t, err)
		got := q.Check()(c.text)
		require.Equal(t, c.want == "", got == "", "%.80s: %s", c.text, got)
		require.Contains(t, got, c.want)
	}
}
