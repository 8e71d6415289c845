package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

type nextTool = func(context.Context, abi.CallPatch) (*abi.Result, error)

// TestConstructors checks which messages the model receives if an agent's middlewares are made by
// package native's simple constructors, by each of them and by several together.
func TestConstructors(t *testing.T) {
	t.Parallel()
	add := native.Tool{Tool: abi.Tool{Name: "added"}, Call: func(_ context.Context, c abi.Call) (*abi.Result, error) {
		return abi.TextResult("added" + c.Arguments), nil
	}}
	shout := func(ctx context.Context, c abi.Call, next nextTool) (*abi.Result, error) {
		res, err := next(ctx, abi.CallPatch{})
		if err == nil {
			res.Content = abi.Text(strings.ToUpper(res.Content.String()))
		}
		return res, err
	}
	appendTo := func(text string) func(context.Context, []abi.Message) ([]abi.Message, error) {
		return func(_ context.Context, m []abi.Message) ([]abi.Message, error) { return append(m, abi.User(text)), nil }
	}
	for name, tc := range map[string]struct {
		middlewares []*native.Middleware
		replies     []scripted.Reply
		want        []string // the messages of the model's last request
	}{
		"WithInstruction": {[]*native.Middleware{native.WithInstruction("one"), native.WithInstruction("two")},
			[]scripted.Reply{scripted.Text("done")}, []string{"S:base\n\none\n\ntwo", "U:hi"}},
		"WithTools": {[]*native.Middleware{native.WithTools(add)},
			[]scripted.Reply{calls("added#1"), scripted.Text("done")}, []string{"S:base", "U:hi", "A:[added#1]", "T:added{}#1"}},
		"WithModelWrapper": {[]*native.Middleware{native.WithModelWrapper(func(ctx context.Context, _ abi.Request, next func(context.Context, abi.RequestPatch) (*abi.Response, error)) (*abi.Response, error) {
			return next(ctx, abi.RequestPatch{Messages: abi.ListPatch{Splice: []abi.Splice{{
				At: 1, Insert: []abi.Message{abi.User("pre")},
			}}}})
		})}, []scripted.Reply{scripted.Text("done")}, []string{"S:base", "U:pre", "U:hi"}},
		"WithToolCallWrapper": {[]*native.Middleware{native.WithToolCallWrapper(shout)},
			[]scripted.Reply{calls("t#1"), scripted.Text("done")}, []string{"S:base", "U:hi", "A:[t#1]", "T:T-OK#1"}},
		"several": {[]*native.Middleware{native.WithInstruction("m"), native.WithTools(add),
			rewritesBefore(appendTo("b")), native.WithToolCallWrapper(shout), native.WithInstruction("h1")},
			[]scripted.Reply{calls("added#1"), scripted.Text("done")},
			[]string{"S:base\n\nm\n\nh1", "U:hi", "U:b", "A:[added#1]", "T:ADDED{}#1", "U:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var entries []hook.Entry
			for i, m := range tc.middlewares {
				entries = append(entries, nativeEntry(string(rune('a'+i)), (*inproc.Middleware)(m)))
			}
			tr := try(
				t,
				agent.Options{
					Instruction: "base",
					Tools:       []tool.Tool{toolNamed("t", "t-ok"), toolNamed("u", "u-ok")},
					Chain:       with(t, entries...),
				},
				tc.replies,
			)
			require.NoError(t, tr.err)
			require.Equal(t, tc.want, tr.seen(len(tc.replies)-1))
		})
	}
}

// rewritesBefore returns a middleware that replaces the run's messages with the result of rewrite
// before each model call.
func rewritesBefore(rewrite func(context.Context, []abi.Message) ([]abi.Message, error)) *native.Middleware {
	return &native.Middleware{BeforeModelRewriteState: func(
		ctx context.Context, c *native.Call, _ *abi.BeforeModelRewriteStateInput,
	) (*abi.BeforeModelRewriteStateAnswer, error) {
		messages, err := rewrite(ctx, c.List(abi.ListState).All())
		return &abi.BeforeModelRewriteStateAnswer{Messages: abi.ListPatch{Whole: true, Replace: messages}}, err
	}}
}

// rewritesAfter returns a middleware that replaces the run's messages with the result of rewrite
// after each model call.
func rewritesAfter(rewrite func(context.Context, []abi.Message) ([]abi.Message, error)) *native.Middleware {
	return &native.Middleware{AfterModelRewriteState: func(
		ctx context.Context, c *native.Call, _ *abi.AfterModelRewriteStateInput,
	) (*abi.AfterModelRewriteStateAnswer, error) {
		messages, err := rewrite(ctx, c.List(abi.ListState).All())
		return &abi.AfterModelRewriteStateAnswer{Messages: abi.ListPatch{Whole: true, Replace: messages}}, err
	}}
}

// TestChainOfARun checks the order in which a run calls the agent's middlewares and those of its
// input, and that the next run calls only the agent's.
func TestChainOfARun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var log []string
	of := func(ring hook.Ring, name string) hook.Entry { return at(ring, name, orderOf(name, &log, &mu)) }
	a, err := agent.New(&agent.Options{Model: scripted.New(scripted.Text("one"), scripted.Text("two")),
		Chain: with(t, of(hook.Inner, "ai"), of(hook.Tenant, "at"), of(hook.Outer, "ao"))})
	require.NoError(t, err)
	given := with(t, of(hook.Outer, "ro"), of(hook.Inner, "ri"), of(hook.Tenant, "rt"))
	hooks := func(in agent.Input, hook string) string {
		log = nil
		in.Messages = []abi.Message{abi.User("hi")}
		for _, err := range a.Run(t.Context(), in) {
			require.NoError(t, err)
		}
		var out []string
		for _, line := range log {
			if name, is := strings.CutSuffix(line, hook); is {
				out = append(out, name)
			}
		}
		return strings.Join(out, " ")
	}
	require.Equal(t, "ao ro at rt ai ri", hooks(agent.Input{Chain: given}, ".wm<"))
	require.Equal(t, "ao at ai", hooks(agent.Input{}, ".wm<"))
}

// TestChainOfARunRefused checks that a run fails if one of its own middlewares has the name of a
// middleware of the agent.
func TestChainOfARunRefused(t *testing.T) {
	t.Parallel()
	m := scripted.New(scripted.Text("one"))
	a, err := agent.New(&agent.Options{Model: m, Chain: with(t, nativeEntry("guard", &inproc.Middleware{}))})
	require.NoError(t, err)
	var failed error
	for _, err := range a.Run(t.Context(), agent.Input{
		Messages: []abi.Message{abi.User("hi")}, Chain: with(t, nativeEntry("guard", &inproc.Middleware{})),
	}) {
		failed = err
	}
	require.ErrorContains(t, failed, `two middlewares are named "guard"`)
	require.Empty(t, m.Requests())
}

// TestChainOfARunResumes checks that a run resumes only with the middlewares that it started with.
func TestChainOfARunResumes(t *testing.T) {
	t.Parallel()
	calls := 0
	given := with(
		t,
		nativeEntry(
			"asks",
			&inproc.Middleware{
				BeforeAgent: func(_ context.Context, _ *hook.Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
					if calls++; in.Resume != nil {
						return nil, nil
					}
					return &abi.BeforeAgentAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "may I?"}}}, nil
				},
			},
		),
	)
	a, err := agent.New(&agent.Options{Model: scripted.New(scripted.Text("one"))})
	require.NoError(t, err)
	p := &pauser{t: t, agent: a}
	p.drain(a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}, Chain: given}))
	require.NotNil(t, p.paused)
	_, err = a.Resume(
		t.Context(),
		p.paused.State,
		map[string]json.RawMessage{p.paused.Interrupts[0].ID: json.RawMessage("1")},
	)
	require.ErrorContains(t, err, "the run had asks; resume it with Agent.With")
	p.agent, err = a.With(given)
	require.NoError(t, err)
	p.one("1")
	require.NoError(t, p.err)
	require.Equal(t, 2, calls)
}
