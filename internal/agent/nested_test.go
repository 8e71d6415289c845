package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// answering returns a model that answers a request that starts with "judge" with the rest of the
// request, and any other request with "done".
func answering(usage *abi.Usage) *scripted.Model {
	return scripted.Func(func(_ int, req *model.Request) scripted.Reply {
		text := "done"
		if m := req.Messages[0]; strings.HasPrefix(m.Content.String(), "judge ") {
			text = "judged " + strings.TrimPrefix(m.Content.String(), "judge ")
		}
		r := scripted.Text(text)
		r.Response.Usage = usage
		return r
	})
}

func saying(text string) abi.RequestPatch {
	return abi.RequestPatch{Messages: abi.ListPatch{Whole: true, Replace: []abi.Message{abi.User(text)}}}
}

// judgingMiddleware returns a middleware that calls the model in before_agent, and passes the
// response and the error to took. The hook returns the error only if the error ends the run.
func judgingMiddleware(req abi.RequestPatch, took func(*abi.Response, error)) *inproc.Middleware {
	return &inproc.Middleware{
		BeforeAgent: func(ctx context.Context, c *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			res, err := c.Model(ctx, req)
			took(res, err)
			if err != nil && !ending.Is(err) {
				return nil, nil
			}
			return nil, err
		},
	}

}

func at(ring hook.Ring, name string, n *inproc.Middleware) hook.Entry {
	return hook.Entry{Name: name, Ring: ring, Middleware: n}
}

func runOn(t *testing.T, m model.Model, o agent.Options) *testRun {
	t.Helper()
	o.Model = m
	a, err := agent.New(&o)
	require.NoError(t, err)
	tr := &testRun{}
	for e, err := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}, RunID: "r"}) {
		tr.events, tr.err = append(tr.events, e), err
	}
	require.Equal(t, tr.count(abi.EventToolCall), tr.count(abi.EventToolResult), "every call has its end")
	return tr
}

// TestOwnModel checks which hooks a module's own model call passes. The response must not be
// streamed or added to the conversation, and its usage must count.
func TestOwnModel(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var log []string
	m := answering(&abi.Usage{PromptTokens: 2, CompletionTokens: 1, TotalTokens: 3})
	var got *abi.Response
	judge := judgingMiddleware(saying("judge this"), func(res *abi.Response, err error) {
		require.NoError(t, err)
		got = res
		mu.Lock()
		defer mu.Unlock()
		require.Equal(
			t,
			[]string{"outer.bm", "outer.wm<", "inner.bm", "inner.wm<", "inner.wm>", "inner.am", "outer.wm>", "outer.am"},
			log[len(log)-8:],
		)
	})
	tr := runOn(t, m, agent.Options{ModelName: "small", Params: abi.Params{"seed": json.RawMessage("1")}, Chain: with(t,
		at(hook.Outer, "outer", orderOf("outer", &log, &mu)), at(hook.Tenant, "tenant", orderOf("tenant", &log, &mu)),
		at(hook.Inner, "inner", orderOf("inner", &log, &mu)), at(hook.Tenant, "judge", judge))})
	require.NoError(t, tr.err)
	require.Equal(t, "judged this", got.Message.Content.String())
	requests := m.Requests()
	require.Len(t, requests, 2)
	require.Equal(t, "small", requests[0].Model)
	require.JSONEq(t, "1", string(requests[0].Params["seed"]))
	require.Empty(t, requests[0].Tools)
	require.Len(t, requests[1].Messages, 1, "the module's own request is not in the conversation")
	require.EqualValues(t, 6, tr.last().Usage.TotalTokens)
	require.EqualValues(t, 1, tr.last().Entries[3].ModelCalls)
	for _, e := range tr.events {
		require.False(t, e.Chunk != nil && strings.Contains(e.Chunk.Text, "judged"), "it is not streamed to the client")
	}
}

// TestOwnModelRequest checks that a module's own model call accepts a valid request and rejects
// invalid requests, each with its error.
func TestOwnModelRequest(t *testing.T) {
	t.Parallel()
	messages := saying("judge x").Messages
	for name, test := range map[string]struct {
		req  abi.RequestPatch
		code abi.Code
		text string
	}{
		"no messages":       {abi.RequestPatch{}, abi.CodeInvalid, "messages must be an array of at least one message"},
		"empty messages":    {abi.RequestPatch{Messages: abi.ListPatch{Whole: true}}, abi.CodeInvalid, "at least one message"},
		"a splice":          {abi.RequestPatch{Messages: abi.ListPatch{Splice: []abi.Splice{{Insert: []abi.Message{abi.User("x")}}}}}, abi.CodeInvalid, "must be an array"},
		"a bad message":     {abi.RequestPatch{Messages: abi.ListPatch{Whole: true, Replace: []abi.Message{{Role: "king"}}}}, abi.CodeInvalid, "king"},
		"tools added":       {abi.RequestPatch{Messages: messages, Tools: abi.ToolsPatch{Add: []abi.Tool{{Name: "t"}}}}, abi.CodeInvalid, "tools must be an array"},
		"a tool twice":      {abi.RequestPatch{Messages: messages, Tools: abi.ToolsPatch{Whole: true, Replace: []abi.Tool{{Name: "t"}, {Name: "t"}}}}, abi.CodeInvalid, "is duplicated"},
		"a nameless tool":   {abi.RequestPatch{Messages: messages, Tools: abi.ToolsPatch{Whole: true, Replace: []abi.Tool{{}}}}, abi.CodeInvalid, "invalid tool name"},
		"a model not had":   {abi.RequestPatch{Messages: messages, Model: "huge"}, abi.CodeDenied, `"huge" is not one of this agent's`},
		"model and a param": {abi.RequestPatch{Messages: messages, Model: "tiny", Params: abi.Params{"seed": json.RawMessage("null"), "n": json.RawMessage("2")}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := answering(nil)
			asked := false
			tr := runOn(
				t,
				m,
				agent.Options{ModelName: "small", Models: []string{"tiny"}, Params: abi.Params{"seed": json.RawMessage("1")},
					Chain: with(t, nativeEntry("judge", judgingMiddleware(test.req, func(_ *abi.Response, err error) {
						asked = true
						if test.code == "" {
							require.NoError(t, err)
							return
						}
						require.ErrorIs(t, err, &abi.Error{Code: test.code})
						require.ErrorContains(t, err, test.text)
					})))},
			)
			require.NoError(t, tr.err)
			require.True(t, asked)
			if test.code == "" {
				require.Equal(t, "tiny", m.Requests()[0].Model)
				require.Equal(t, abi.Params{"n": json.RawMessage("2")}, m.Requests()[0].Params)
			} else {
				require.Len(t, m.Requests(), 1, "the model was asked by the run alone")
			}
		})
	}
}

// TestOwnModelJudges checks that the hooks of operators' modules judge the model calls of other
// modules but not their own. Otherwise there would be endless recursion.
func TestOwnModelJudges(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	judge := func(name string) *inproc.Middleware {
		return &inproc.Middleware{
			AfterModel: func(ctx context.Context, c *hook.Call, _ *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
				mu.Lock()
				asked[name]++
				mu.Unlock()
				_, err := c.Model(ctx, saying("judge for "+name))
				return nil, err
			},
		}
	}
	tr := runOn(
		t,
		answering(nil),
		agent.Options{Chain: with(t, at(hook.Outer, "a", judge("a")), at(hook.Outer, "b", judge("b")),
			at(hook.Tenant, "t", judge("t")))},
	)
	require.NoError(t, tr.err)
	// Module a judges four calls: the run's, t's, and the two that b makes to judge those. Module b
	// judges the corresponding four calls.
	require.Equal(t, map[string]int{"a": 4, "b": 4, "t": 1}, asked)
}

// TestOwnModelFails checks that a module receives the model's error as the error of its own call.
// An own call beyond the run's limit of model calls must end the run, even if the module ignores
// the error.
func TestOwnModelFails(t *testing.T) {
	t.Parallel()
	broken := scripted.Func(func(n int, _ *model.Request) scripted.Reply {
		if n == 0 {
			return scripted.Reply{Err: &model.Error{Code: abi.CodeUnavailable, Message: "no route"}}
		}
		return scripted.Text("done")
	})
	tr := runOn(
		t,
		broken,
		agent.Options{
			Chain: with(t, nativeEntry("judge", judgingMiddleware(saying("judge x"), func(_ *abi.Response, err error) {
				require.ErrorIs(t, err, &abi.Error{Code: abi.CodeUnavailable})
			}))),
		},
	)
	require.NoError(t, tr.err)

	tr = runOn(t, answering(nil), agent.Options{Limits: agent.Limits{ModelCalls: 1}, Chain: with(
		t,
		nativeEntry(
			"judge",
			&inproc.Middleware{
				AfterModel: func(ctx context.Context, c *hook.Call, _ *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
					_, err := c.Model(ctx, saying("judge x"))
					require.True(t, ending.Is(err))
					return nil, nil // a module cannot catch this error
				},
			},
		),
	)})
	var limited *ending.LimitError
	require.ErrorAs(t, tr.err, &limited)
}

// calling returns a middleware that calls a tool in before_agent, and passes the result and the
// error to took.
func calling(name, arguments string, took func(*abi.Result, error)) *inproc.Middleware {
	return &inproc.Middleware{
		BeforeAgent: func(ctx context.Context, c *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			res, err := c.Tool(ctx, name, arguments)
			took(res, err)
			return nil, nil
		},
	}

}

func echo(name string) tool.Tool {
	return tool.Func(abi.Tool{Name: name}, func(_ context.Context, call abi.Call) (*abi.Result, error) {
		return abi.TextResult(name + call.Arguments), nil
	})
}

// TestOwnCallsWhere checks that after_agent may call tools and the model, and that such calls are
// denied in observe and translate_before.
func TestOwnCallsWhere(t *testing.T) {
	t.Parallel()
	seen := map[abi.Hook]error{}
	try := func(ctx context.Context, c *hook.Call) {
		_, seen[c.Hook] = c.Tool(ctx, "echo", "")
		_, err := c.Model(ctx, saying("judge x"))
		if seen[c.Hook] == nil {
			seen[c.Hook] = err
		}
	}
	n := &inproc.Middleware{
		AfterAgent: func(ctx context.Context, c *hook.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			try(ctx, c)
			return nil, nil
		},
		Observe: func(ctx context.Context, c *hook.Call, _ *abi.ObserveInput) (*abi.ObserveAnswer, error) {
			try(ctx, c)
			return nil, nil
		},
		TranslateBefore: func(ctx context.Context, c *hook.Call, _ *abi.TranslateInput) (*abi.TranslateAnswer, error) {
			try(ctx, c)
			return nil, nil
		},
	}
	a, err := agent.New(
		&agent.Options{
			Model: answering(&abi.Usage{TotalTokens: 3}),
			Tools: []tool.Tool{echo("echo")},
			Chain: with(t, nativeEntry("n", n)),
		},
	)
	require.NoError(t, err)
	var last abi.Event
	for e, err := range a.RunFor(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}, lines{}) {
		require.NoError(t, err)
		last = e.Event
	}
	require.NoError(t, seen[contract.HookAfterAgent])
	require.EqualValues(t, 6, last.Usage.TotalTokens, "usage includes the calls of after_agent")
	require.ErrorIs(t, seen[contract.HookObserve], &abi.Error{Code: abi.CodeDenied})
	require.ErrorIs(t, seen[contract.HookTranslateBefore], &abi.Error{Code: abi.CodeDenied})
}
