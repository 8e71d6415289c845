package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

type object = map[string]any

// A bench is a test host that simulates an agent's model and tools.
type bench struct {
	*middlewaretest.Host
	t     *testing.T
	usage abi.Usage
}

func newBench(t *testing.T, config object) *bench {
	t.Helper()
	b := &bench{Host: middlewaretest.New(middleware.Options{}, newLimits()), t: t}
	require.NoError(t, b.Configure(config))
	return b
}

// fresh returns a bench for another run with the same configuration and the same stored values.
func (b *bench) fresh() *bench {
	b.t.Helper()
	other := &bench{Host: middlewaretest.New(middleware.Options{}, newLimits()), t: b.t, usage: b.usage}
	for key, value := range b.Stored() {
		require.NoError(b.t, other.SetStored(key, value))
	}
	other.Run = b.Run
	require.NoError(b.t, other.Configure(b.config()))
	return other
}

func (b *bench) config() any { return configs[b.t.Name()] }

var configs = map[string]any{}

// model makes a model call, and returns its outcome: "ok", "no tools", or how the run
// ended.
func (b *bench) model() string {
	b.t.Helper()
	require.NoError(b.t, b.Wipe())
	answer, err := b.BeforeModel(abi.BeforeModelInput{Request: abi.Request{
		Model: "m-1", Tools: []abi.Tool{{Name: "t"}}, Params: abi.Params{"tool_choice": []byte(`"auto"`)}}})
	switch {
	case err != nil:
		return "error: " + err.Error()
	case answer.Stop != nil:
		require.Equal(b.t, "limit", answer.Stop.Code)
		return "stop: " + answer.Stop.Reason
	}
	_, err = b.AfterModel(abi.AfterModelInput{Request: abi.Request{Model: "m-1"}, Source: "model",
		Response: &abi.Response{Message: abi.Assistant("ok"), Usage: &b.usage}})
	require.NoError(b.t, err)
	if !answer.Request.IsZero() {
		require.True(b.t, answer.Request.Tools.Whole || len(answer.Request.Tools.Remove) == 1)
		require.Equal(b.t, "null", string(answer.Request.Params["tool_choice"]))
		return "no tools"
	}
	return "ok"
}

// tool makes a tool call, and returns "ok" or the rejection.
func (b *bench) tool(name string) string {
	b.t.Helper()
	require.NoError(b.t, b.Wipe())
	answer, err := b.BeforeTool(abi.BeforeToolInput{Call: abi.Call{Name: name, Arguments: "{}"}})
	require.NoError(b.t, err)
	switch {
	case answer.Stop != nil:
		return "stop: " + answer.Stop.Reason
	case answer.Result != nil:
		require.True(b.t, answer.Result.IsError)
		return answer.Result.Content.String()
	default:
		return "ok"
	}
}

func TestModelCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, object{"run": object{"model_calls": 2}})
	require.Equal(t, "ok", b.model())
	require.Equal(t, "no tools", b.model())
	require.Contains(t, b.tool("t"), "The limit of 2 model calls for this run is reached. The call was not made.")
	require.Equal(t, "stop: The limit of 2 model calls for this run is reached.", b.model())
	require.Len(t, b.Events, 2)
	require.JSONEq(t, `{"by":"run","what":"model calls","max":"2"}`, string(b.Events[0].Data))

	for _, how := range []string{"stop", "error"} {
		b = newBench(t, object{"run": object{"model_calls": 2}, "on_limit": how})
		require.Equal(t, "ok", b.model())
		require.Equal(t, "ok", b.model())
		require.Equal(t, how+": The limit of 2 model calls for this run is reached.", b.model())
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t, object{"run": object{"tokens": 100}})
	b.usage = abi.Usage{PromptTokens: 40, CompletionTokens: 20, TotalTokens: 60}
	require.Equal(t, "ok", b.model())
	require.Equal(t, "ok", b.model())
	require.Equal(t, "no tools", b.model())
	require.Equal(t, "stop: The limit of 100 tokens for this run is reached.", b.model())
}

// TestTokensEstimated checks that usage is estimated if the model reports none, and that failures
// and answers of other sources are not counted.
func TestTokensEstimated(t *testing.T) {
	t.Parallel()
	b := newBench(t, object{"run": object{"tokens": 100}})
	b.SetMessages(abi.User(strings.Repeat("word ", 100)))
	_, err := b.AfterModel(
		abi.AfterModelInput{
			Request:  abi.Request{Model: "m"},
			Source:   "model",
			Response: &abi.Response{Message: abi.Assistant(strings.Repeat("word ", 100))},
		},
	)
	require.NoError(t, err)
	var n int64
	_, err = b.Local(tokensUsed, &n)
	require.NoError(t, err)
	require.Greater(t, n, int64(100))

	_, err = b.AfterModel(
		abi.AfterModelInput{
			Request:  abi.Request{Model: "m"},
			Source:   "cache",
			Response: &abi.Response{Message: abi.Assistant("x")},
		},
	)
	require.NoError(t, err)
	_, err = b.AfterModel(
		abi.AfterModelInput{Request: abi.Request{Model: "m"}, Source: "model", Error: &abi.Error{Code: abi.CodeModel}},
	)
	require.NoError(t, err)
	var after int64
	_, err = b.Local(tokensUsed, &after)
	require.NoError(t, err)
	require.Equal(t, n, after, "what no model answered costs nothing")
}

func TestMoney(t *testing.T) {
	t.Parallel()
	b := newBench(
		t,
		object{
			"run":      object{"money": 0.001},
			"prices":   object{"*": object{"input": 1}, "m-*": object{"input": 10, "output": 30}},
			"on_limit": "stop",
		},
	)
	b.usage = abi.Usage{PromptTokens: 20, CompletionTokens: 10, TotalTokens: 30} // 0.0005
	require.Equal(t, "ok", b.model())
	require.Equal(t, "ok", b.model())
	require.Equal(t, "stop: The limit of 0.001 money for this run is reached.", b.model())

	// Reported usage never lowers a sum, and a total without a breakdown still costs money.
	for _, usage := range []abi.Usage{
		{TotalTokens: 40}, {PromptTokens: -1 << 62, CompletionTokens: 1 << 62}, {PromptTokens: 1<<63 - 1, TotalTokens: -1},
	} {
		b = newBench(
			t,
			object{"run": object{"money": 0.001}, "prices": object{"*": object{"input": 10, "output": 30}}, "on_limit": "stop"},
		)
		b.usage = usage
		require.Equal(t, "ok", b.model())
		require.Equal(t, "stop: The limit of 0.001 money for this run is reached.", b.model())
	}

	b = newBench(t, object{"run": object{"money": 1}, "prices": object{"other": object{"input": 1}}})
	require.Equal(t, "error: money is limited, but prices has no entry for model m-1", b.model())
}

func TestToolCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, object{"run": object{"tool_calls": 3, "tools": object{"mail*": 1, "never": 0}}})
	require.Equal(t, "ok", b.tool("mail"))
	require.Contains(
		t,
		b.tool("mail_all"),
		"The limit of 1 calls of mail* for this run is reached. The call was not made; do not call it again.",
	)
	require.Contains(t, b.tool("never"), "The limit of 0 calls of never")
	require.Equal(t, "ok", b.tool("read"))
	require.Equal(t, "ok", b.tool("read"), "what was refused does not count")
	require.Contains(t, b.tool("read"), "The limit of 3 tool calls for this run is reached.")
	require.Equal(t, "ok", b.model())

	b = newBench(t, object{"run": object{"tool_calls": 1}, "on_tool_limit": "stop"})
	require.Equal(t, "ok", b.tool("read"))
	require.Contains(t, b.tool("read"), "stop: The limit of 1 tool calls")

	b = newBench(t, object{"run": object{"tool_calls": 1}, "on_tool_limit": "answer"})
	require.Equal(t, "ok", b.model())
	require.Equal(t, "ok", b.tool("read"))
	require.Contains(t, b.tool("read"), "The limit of 1 tool calls")
	require.Equal(t, "no tools", b.model())
	require.Contains(t, b.model(), "stop: ")
}

func TestDay(t *testing.T) {
	config := object{
		"day": object{"model_calls": 3, "tools": object{"mail": 1}},
		"run": object{"tools": object{"mail": 5}},
	}
	configs[t.Name()] = config
	b := newBench(t, config)
	require.Equal(t, "ok", b.model())
	require.Equal(t, "ok", b.tool("mail"))
	b = b.fresh()
	require.Contains(t, b.tool("mail"), "The limit of 1 calls of mail for this day is reached.")
	var n int64
	_, err := b.Local("tool/mail", &n)
	require.NoError(t, err)
	require.Zero(t, n, "what the day refuses the run does not count")
	require.Equal(t, "ok", b.model())
	b = b.fresh()
	require.Equal(t, "no tools", b.model())
	b = b.fresh()
	require.Equal(t, "stop: The limit of 3 model calls for this day is reached.", b.model())

	b = b.fresh()
	b.Run.NowMS += 24 * 3600 * 1000
	require.Equal(t, "ok", b.model(), "the next day")
	b.Run.NowMS += 24 * 3600 * 1000
	require.Equal(t, "ok", b.model())
	b.Run.NowMS += 48 * 3600 * 1000
	require.Equal(t, "ok", b.model())
}

// TestDayIsOver checks that, when the day's tokens are used up, a running run gets one last call
// and a new run ends at once.
func TestDayIsOver(t *testing.T) {
	config := object{"day": object{"tokens": 100}}
	configs[t.Name()] = config
	b := newBench(t, config)
	b.usage.TotalTokens = 100
	require.Equal(t, "ok", b.model())
	require.Equal(t, "no tools", b.model())
	b = b.fresh()
	require.Contains(t, b.model(), "stop: The limit of 100 tokens for this day")
}

func TestWithoutStore(t *testing.T) {
	t.Parallel()
	b := newBench(t, object{"day": object{"model_calls": 3, "tool_calls": 1}})
	b.NoStore = true
	require.Contains(t, b.model(), "error: store is not granted")
	_, err := b.BeforeTool(abi.BeforeToolInput{Call: abi.Call{Name: "t"}})
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeDenied}, "what cannot be counted is not allowed")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]object{
		"config: there is no limit":        {},
		"config: on_limit: \"x\"":          {"run": object{"tokens": 1}, "on_limit": "x"},
		"config: on_tool_limit: \"error\"": {"run": object{"tokens": 1}, "on_tool_limit": "error"},
		"config: run: limits are 0":        {"run": object{"tokens": -1}},
		"config: day: limits are 0":        {"day": object{"money": 1e9}},
		"config: run.money: needs prices":  {"run": object{"money": 1}},
		"config: day.tools.t: want":        {"day": object{"tools": object{"t": -1}}},
		"config: prices.m: want":           {"run": object{"tokens": 1}, "prices": object{"m": object{"input": -1}}},
		"config: unknown key run.token":    {"run": object{"token": 1}},
		"run.tokens":                       {"run": object{"tokens": "many"}},
	} {
		h := middlewaretest.New(middleware.Options{}, newLimits())
		require.ErrorContains(t, h.Configure(config), want)
	}
}
