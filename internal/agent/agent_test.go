package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A testRun is the model, the events and the error of one run with scripted replies.
type testRun struct {
	model  *scripted.Model
	events []abi.Event
	err    error
}

// try runs an agent with scripted replies and the given messages, or one user message if there are
// none. It checks that the events have no gaps and that each step and call has an end.
func try(t *testing.T, o agent.Options, replies []scripted.Reply, messages ...abi.Message) *testRun {
	t.Helper()
	tr := &testRun{model: scripted.New(replies...)}
	o.Model = tr.model
	a, err := agent.New(&o)
	require.NoError(t, err)
	if messages == nil {
		messages = []abi.Message{abi.User("hi")}
	}
	var open []string
	for e, err := range a.Run(t.Context(), agent.Input{Messages: messages, RunID: "r"}) {
		tr.events, tr.err = append(tr.events, e), err
		require.EqualValues(t, len(tr.events), e.Seq, "events are numbered without gaps")
		switch e.Type {
		case abi.EventStepStarted, abi.EventToolCall:
			open = append(open, callOf(e))
		case abi.EventStepFinished, abi.EventToolResult:
			require.Contains(t, open, callOf(e))
		}
	}
	require.Equal(t, abi.EventRunFinished, tr.last().Type)
	require.Equal(t, tr.count(abi.EventStepStarted), tr.count(abi.EventStepFinished), "every step has its end")
	require.Equal(t, tr.count(abi.EventToolCall), tr.count(abi.EventToolResult), "every call has its end")
	return tr
}

func callOf(e abi.Event) string {
	if e.Call != nil {
		return e.Call.ID
	}
	return e.StepID
}

func (tr *testRun) last() abi.Event { return tr.events[len(tr.events)-1] }

func (tr *testRun) count(typ abi.EventType) (n int) {
	for _, e := range tr.events {
		if e.Type == typ {
			n++
		}
	}
	return n
}

func (tr *testRun) results() (out []string) {
	for _, e := range tr.events {
		if e.Type == abi.EventToolResult {
			out = append(out, e.Call.ID+"="+e.Result.Content.String())
		}
	}
	return out
}

// seen returns a summary of the messages of model request n, counted from 0.
func (tr *testRun) seen(n int) []string { return short(tr.model.Requests()[n].Messages) }

// short returns a summary of each message: its role, text and calls.
func short(messages []abi.Message) []string {
	out := make([]string, len(messages))
	for i, m := range messages {
		s := strings.ToUpper(m.Role[:1]) + ":" + m.Content.String()
		for _, c := range m.ToolCalls {
			s += "[" + c.Function.Name + "#" + c.ID + "]"
		}
		if m.ToolCallID != "" {
			s += "#" + m.ToolCallID
		}
		out[i] = s
	}
	return out
}

func toolNamed(name, result string) tool.Tool {
	return tool.Func(abi.Tool{Name: name}, func(context.Context, abi.Call) (*abi.Result, error) {
		return abi.TextResult(result), nil
	})
}

// calls returns a reply with one tool call for each pair of a tool's name and a call's id, such as
// "t#1".
func calls(pairs ...string) scripted.Reply {
	var out []abi.ToolCall
	for _, p := range pairs {
		name, id, _ := strings.Cut(p, "#")
		out = append(out, abi.NewToolCall(id, name, "{}"))
	}
	return scripted.Calls(out...)
}

// with returns a chain of entries.
func with(t *testing.T, entries ...hook.Entry) *chain.Chain {
	t.Helper()
	c, err := chain.New(entries...)
	require.NoError(t, err)
	return c
}

func nativeEntry(name string, n *inproc.Middleware) hook.Entry {
	return hook.Entry{Name: name, Ring: hook.Tenant, Middleware: n}
}

func TestToolRound(t *testing.T) {
	t.Parallel()
	tr := try(t, agent.Options{Tools: []tool.Tool{toolNamed("t", "t-ok")}, Instruction: "be brief"},
		[]scripted.Reply{calls("t#1", "t#2"), scripted.Text("done")})
	require.NoError(t, tr.err)
	require.Equal(t, []string{"S:be brief", "U:hi", "A:[t#1][t#2]", "T:t-ok#1", "T:t-ok#2"}, tr.seen(1))
	require.Equal(t, abi.RunStop, tr.last().FinishReason)
	require.Equal(t, "done", tr.last().Message.Content.String())
}

// orderOf returns a middleware that appends the entry's name and an abbreviation of the hook to
// log, under mu, each time a hook runs.
func orderOf(name string, log *[]string, mu *sync.Mutex) *inproc.Middleware {
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		*log = append(*log, name+"."+what)
	}
	return &inproc.Middleware{
		BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			note("ba")
			return nil, nil
		},
		BeforeModelRewriteState: func(
			context.Context, *hook.Call, *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			note("bs")
			return nil, nil
		},
		BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			note("bm")
			return nil, nil
		},
		WrapModel: func(ctx context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			note("wm<")
			_, err := c.NextModel(ctx, abi.RequestPatch{})
			note("wm>")
			return nil, err
		},
		AfterModel: func(context.Context, *hook.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			note("am")
			return nil, nil
		},
		AfterModelRewriteState: func(
			context.Context, *hook.Call, *abi.AfterModelRewriteStateInput,
		) (*abi.AfterModelRewriteStateAnswer, error) {
			note("as")
			return nil, nil
		},
		BeforeTool: func(context.Context, *hook.Call, *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error) {
			note("bt")
			return nil, nil
		},
		WrapToolCall: func(ctx context.Context, c *hook.Call, _ *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			note("wt<")
			_, err := c.NextTool(ctx, abi.CallPatch{})
			note("wt>")
			return nil, err
		},
		GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			note("gate")
			return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
		},
		AfterTool: func(context.Context, *hook.Call, *abi.AfterToolInput) (*abi.AfterToolAnswer, error) {
			note("at")
			return nil, nil
		},
		AfterTools: func(context.Context, *hook.Call, *abi.AfterToolsInput) (*abi.AfterToolsAnswer, error) {
			note("ats")
			return nil, nil
		},
		AfterAgent: func(context.Context, *hook.Call, *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			note("aa")
			return nil, nil
		},
	}
}

func TestOrderInOneRing(t *testing.T) {
	t.Parallel()
	var log []string
	var mu sync.Mutex
	try(t, agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")},
		Chain: with(t, nativeEntry("h1", orderOf("h1", &log, &mu)), nativeEntry("h2", orderOf("h2", &log, &mu)))},
		[]scripted.Reply{calls("t#1"), scripted.Text("done")})
	modelPhase := "h1.bs h2.bs h1.bm h2.bm h1.wm< h2.wm< h2.wm> h1.wm> h1.am h2.am h1.as h2.as "
	require.Equal(
		t,
		"h1.ba h2.ba "+modelPhase+"h1.bt h2.bt h1.wt< h2.wt< h1.gate h2.gate h2.wt> h1.wt> h1.at h2.at h1.ats h2.ats "+
			modelPhase+"h1.aa h2.aa",
		strings.Join(log, " "),
	)
}

func TestOrderOfRings(t *testing.T) {
	t.Parallel()
	var log []string
	var mu sync.Mutex
	in := func(name string, ring hook.Ring) hook.Entry {
		return hook.Entry{Name: name, Ring: ring, Middleware: orderOf(name, &log, &mu)}
	}
	// The rings determine the order, whatever the order of registration.
	try(t, agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")},
		Chain: with(t, in("in", hook.Inner), in("ten", hook.Tenant), in("out", hook.Outer))},
		[]scripted.Reply{calls("t#1"), scripted.Text("done")})
	modelPhase := "out.bs ten.bs in.bs out.bm out.wm< ten.bm ten.wm< in.bm in.wm< in.wm> in.am ten.wm> ten.am out.wm> out.am in.as ten.as out.as "
	require.Equal(t, "out.ba ten.ba in.ba "+modelPhase+
		"out.bt out.wt< ten.bt ten.wt< in.bt in.wt< out.gate ten.gate in.gate in.wt> in.at ten.wt> ten.at out.wt> out.at in.ats ten.ats out.ats "+
		modelPhase+"in.aa ten.aa out.aa", strings.Join(log, " "))
}

func TestStatePipelineCommitsAsAWhole(t *testing.T) {
	t.Parallel()
	add := (*inproc.Middleware)(
		rewritesBefore(func(_ context.Context, m []abi.Message) ([]abi.Message, error) {
			return append(m, abi.User("added")), nil
		}),
	)
	fail := (*inproc.Middleware)(
		rewritesBefore(func(context.Context, []abi.Message) ([]abi.Message, error) {
			return nil, errors.New("no")
		}),
	)
	var end abi.AfterAgentInput
	var total int
	look := &inproc.Middleware{
		AfterAgent: func(_ context.Context, c *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			end, total = *in, c.List(abi.ListState).Len()
			return nil, nil
		},
	}
	tr := try(
		t,
		agent.Options{Chain: with(t, nativeEntry("add", add), nativeEntry("fail", fail), nativeEntry("look", look))},
		nil,
	)
	require.ErrorContains(t, tr.err, "fail: before_model_rewrite_state failed: no")
	require.Empty(t, tr.model.Requests())
	require.Equal(t, 1, total, "the message of the first module is discarded")
	require.Equal(t, abi.RunError, end.FinishReason)
}

func TestWhatTheModelGetsWrongIsAnswered(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	weather := tool.Func(abi.Tool{Name: "weather"}, func(context.Context, abi.Call) (*abi.Result, error) {
		ran.Add(1)
		return abi.TextResult("sunny"), nil
	})
	tr := try(t, agent.Options{Tools: []tool.Tool{weather}}, []scripted.Reply{
		scripted.Calls(
			abi.NewToolCall("1", "wether", "{}"),
			abi.NewToolCall("2", "weather", `{"a":`),
			abi.NewToolCall("3", "weather", `[1]`),
			abi.NewToolCall("4", "weather", ""),
			abi.NewToolCall("4", "weather", `{}`),
			abi.NewToolCall("", "weather", `{}`),
		),
		scripted.Text("done"),
	})
	require.NoError(t, tr.err)
	seen := tr.seen(1)
	require.Len(t, seen, 2+6)
	require.Contains(t, seen[2], `There is no tool "wether". Did you mean weather?`)
	require.Contains(t, seen[3], "are not valid")
	require.Contains(t, seen[4], "want a JSON object")
	require.Equal(t, "T:sunny#4", seen[5], "no arguments are an empty object")
	require.Equal(
		t,
		"A:[wether#1][weather#2][weather#3][weather#4][weather#call_5][weather#call_6]",
		seen[1],
		"ids are made unique",
	)
	require.EqualValues(t, 3, ran.Load())
}

func TestOneToolFailsItsSiblingsFinish(t *testing.T) {
	t.Parallel()
	fails := tool.Func(
		abi.Tool{Name: "fails"},
		func(context.Context, abi.Call) (*abi.Result, error) { return nil, errors.New("disk full") },
	)
	panics := tool.Func(abi.Tool{Name: "panics"}, func(context.Context, abi.Call) (*abi.Result, error) { panic("boom") })
	hangs := tool.Func(abi.Tool{Name: "hangs"}, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	tr := try(
		t,
		agent.Options{ToolTimeout: 20 * time.Millisecond, Tools: []tool.Tool{fails, panics, hangs, toolNamed("t", "ok")}},
		[]scripted.Reply{calls("fails#1", "panics#2", "hangs#3", "t#4"), scripted.Text("done")},
	)
	require.NoError(t, tr.err, "a tool's time-out is not the run's")
	seen := tr.seen(1)
	require.Contains(t, seen[2], "disk full")
	require.Contains(t, seen[3], "boom")
	require.Equal(t, "T:ok#4", seen[5])
	for _, e := range tr.events {
		if e.Type == abi.EventToolResult {
			require.Equal(t, e.Call.ID != "4", e.Result.IsError, e.Call.ID)
		}
	}
}

func TestEventsComeAsThingsHappenResultsInOrder(t *testing.T) {
	t.Parallel()
	fast := make(chan struct{})
	slow := tool.Func(abi.Tool{Name: "slow"}, func(context.Context, abi.Call) (*abi.Result, error) {
		<-fast
		return abi.TextResult("slow"), nil
	})
	quick := toolNamed("quick", "quick")
	done := &inproc.Middleware{
		AfterTool: func(_ context.Context, _ *hook.Call, in *abi.AfterToolInput) (*abi.AfterToolAnswer, error) {
			if in.Call.Name == "quick" {
				time.AfterFunc(5*time.Millisecond, func() { close(fast) })
			}
			return nil, nil
		},
	}
	tr := try(t, agent.Options{Tools: []tool.Tool{slow, quick}, Chain: with(t, nativeEntry("m", done))},
		[]scripted.Reply{calls("slow#1", "quick#2"), scripted.Text("done")})
	require.Equal(t, []string{"2=quick", "1=slow"}, tr.results())
	require.Equal(t, []string{"U:hi", "A:[slow#1][quick#2]", "T:slow#1", "T:quick#2"}, tr.seen(1))
}

func TestReturnDirectly(t *testing.T) {
	t.Parallel()
	tr := try(
		t,
		agent.Options{
			ReturnDirectly: []string{"t", "u"},
			Tools:          []tool.Tool{toolNamed("t", "first"), toolNamed("u", "second"), toolNamed("v", "other")},
		},
		[]scripted.Reply{calls("t#1", "u#2", "v#3")},
	)
	require.NoError(t, tr.err)
	require.Equal(t, abi.RunReturnDirectly, tr.last().FinishReason)
	require.Equal(t, "second", tr.last().Message.Content.String(), "the last such call's, after all its siblings")
	require.Equal(t, 3, tr.count(abi.EventToolResult))
}

func TestMaxSteps(t *testing.T) {
	t.Parallel()
	ended := 0
	end := &inproc.Middleware{
		AfterAgent: func(_ context.Context, _ *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			ended++
			return nil, nil
		},
	}
	tr := try(
		t,
		agent.Options{MaxSteps: 2, Tools: []tool.Tool{toolNamed("t", "ok")}, Chain: with(t, nativeEntry("m", end))},
		[]scripted.Reply{calls("t#1"), calls("t#2"), scripted.Text("never")},
	)
	require.ErrorContains(t, tr.err, "2 steps")
	require.Equal(t, abi.RunMaxSteps, tr.last().FinishReason)
	require.Len(t, tr.model.Requests(), 2)
	require.Equal(t, 1, ended, "after_agent learns it")
}

func TestStopCannotBeCaught(t *testing.T) {
	t.Parallel()
	caught := &inproc.Middleware{
		WrapToolCall: func(ctx context.Context, c *hook.Call, _ *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			_, _ = c.NextTool(ctx, abi.CallPatch{})
			return &abi.WrapToolCallAnswer{Result: abi.TextResult("nothing happened")}, nil
		},
	}
	stop := &inproc.Middleware{
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			if in.Call.ID == "1" {
				return &abi.GateToolAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "quota", Code: "q"}}}, nil
			}
			return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
		},
	}
	tr := try(
		t,
		agent.Options{
			Tools: []tool.Tool{toolNamed("t", "ok")},
			Chain: with(t, nativeEntry("caught", caught), nativeEntry("stop", stop)),
		},
		[]scripted.Reply{calls("t#1", "t#2")},
	)
	var e *agent.Error
	require.ErrorAs(t, tr.err, &e)
	require.Equal(t, abi.RunStopped, e.FinishReason)
	require.Equal(t, "stop", tr.last().StoppedBy)
	require.Equal(t, "quota", tr.last().Reason)
	require.Contains(t, tr.results(), "2=nothing happened", "siblings finish")
	require.Contains(
		t,
		tr.results(),
		"1=The call of t was not run: stop stopped the run: quota.",
		"every call is answered",
	)
}

func TestStricterGateWins(t *testing.T) {
	t.Parallel()
	gate := func(decision, message string) *inproc.Middleware {
		return &inproc.Middleware{
			GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
				return &abi.GateToolAnswer{Decision: decision, Message: message}, nil
			},
		}
	}
	for name, tc := range map[string]struct {
		gates []*inproc.Middleware
		want  string
	}{
		"allow":            {[]*inproc.Middleware{gate("allow", ""), gate("allow", "")}, "ok"},
		"deny after allow": {[]*inproc.Middleware{gate("allow", ""), gate("deny", "no")}, "no"},
		"deny beats ask":   {[]*inproc.Middleware{gate("ask", "may I"), gate("deny", "no"), gate("allow", "")}, "no"},
		"undecided denies": {[]*inproc.Middleware{gate("", "")}, "The policy g0 could not decide."},
		"nonsense denies":  {[]*inproc.Middleware{gate("maybe", "")}, "The policy g0 could not decide."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var entries []hook.Entry
			for i, g := range tc.gates {
				entries = append(entries, nativeEntry(fmt.Sprintf("g%d", i), g))
			}
			tr := try(t, agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")}, Chain: with(t, entries...)},
				[]scripted.Reply{calls("t#1"), scripted.Text("done")})
			require.NoError(t, tr.err)
			require.Equal(t, strings.ToLower("1="+tc.want), strings.ToLower(tr.results()[0]))
		})
	}
}

func TestCancelWhileAToolHangs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	hang := tool.Func(abi.Tool{Name: "hang"}, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ended := ""
	end := &inproc.Middleware{
		AfterAgent: func(_ context.Context, _ *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			ended = in.FinishReason
			return nil, nil
		},
	}
	a, err := agent.New(
		&agent.Options{Model: scripted.New(calls("hang#1")), Tools: []tool.Tool{hang}, Chain: with(t, nativeEntry("m", end))},
	)
	require.NoError(t, err)
	var last abi.Event
	var result string
	for e, err := range a.Run(ctx, agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
		last = e
		if e.Type == abi.EventToolResult {
			result = e.Result.Content.String()
		}
		if e.Type == abi.EventRunFinished {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.Equal(t, abi.RunCanceled, last.FinishReason)
	require.Equal(t, "The call of hang was cut off when the run ended. Whether it had an effect is not known.", result)
	require.Equal(t, abi.RunCanceled, ended, "after_agent learns it")
}

func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	ended := ""
	end := &inproc.Middleware{
		AfterAgent: func(_ context.Context, _ *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			ended = in.FinishReason
			return nil, nil
		},
	}
	a, err := agent.New(
		&agent.Options{Model: scripted.New(scripted.Reply{Hang: true}), Chain: with(t, nativeEntry("m", end))},
	)
	require.NoError(t, err)
	for range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
		break
	}
	require.Equal(t, abi.RunCanceled, ended)
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	tr := try(t, agent.Options{Timeout: 20 * time.Millisecond}, []scripted.Reply{{Hang: true}})
	require.ErrorContains(t, tr.err, "timeout of 20ms")
	require.Equal(t, abi.RunTimeout, tr.last().FinishReason)
}

func TestModelError(t *testing.T) {
	t.Parallel()
	var seen *abi.Error
	watch := &inproc.Middleware{
		AfterModel: func(_ context.Context, _ *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			seen = in.Error
			return nil, nil
		},
	}
	bad := &model.Error{Code: abi.CodeModel, Message: "overloaded", Status: 529, Retryable: true, RetryAfter: time.Second}
	tr := try(t, agent.Options{Chain: with(t, nativeEntry("m", watch))}, []scripted.Reply{{Err: bad}})
	require.ErrorContains(t, tr.err, "overloaded")
	require.Equal(
		t,
		&abi.Error{Code: abi.CodeModel, Message: "overloaded", Status: 529, Retryable: true, RetryAfterMS: 1000},
		seen,
	)
	require.Equal(t, abi.CodeModel, tr.last().Error.Code)
}

func TestCallerInputIsNotChanged(t *testing.T) {
	t.Parallel()
	shout := (*inproc.Middleware)(
		rewritesBefore(func(_ context.Context, m []abi.Message) ([]abi.Message, error) {
			m[0].Content = abi.Text(m[0].Content.String() + "!")
			return m, nil
		}),
	)
	messages := []abi.Message{abi.User("hi")}
	tr := try(
		t,
		agent.Options{Chain: with(t, nativeEntry("m", shout))},
		[]scripted.Reply{scripted.Text("done")},
		messages...)
	require.Equal(t, []string{"U:hi!"}, tr.seen(0))
	require.Equal(t, abi.User("hi"), messages[0])
}

// TestAfterModelRewriteStateDecides checks that the run's last message after
// after_model_rewrite_state determines how the run continues.
func TestAfterModelRewriteStateDecides(t *testing.T) {
	t.Parallel()
	once := func(change func(m []abi.Message) []abi.Message) *inproc.Middleware {
		did := false
		return (*inproc.Middleware)(
			rewritesAfter(func(_ context.Context, m []abi.Message) ([]abi.Message, error) {
				if did {
					return m, nil
				}
				did = true
				return change(m), nil
			}),
		)
	}
	o := func(n *inproc.Middleware) agent.Options {
		return agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")}, Chain: with(t, nativeEntry("m", n))}
	}
	t.Run("a call that the module adds runs", func(t *testing.T) {
		tr := try(t, o(once(func(m []abi.Message) []abi.Message {
			m[len(m)-1].ToolCalls = []abi.ToolCall{abi.NewToolCall("9", "t", "{}")}
			return m
		})), []scripted.Reply{scripted.Text("plain"), scripted.Text("done")})
		require.Equal(t, []string{"U:hi", "A:plain[t#9]", "T:ok#9"}, tr.seen(1))
	})
	t.Run("anything but an assistant's message is another step", func(t *testing.T) {
		tr := try(t, o(once(func(m []abi.Message) []abi.Message { return append(m, abi.User("x")) })),
			[]scripted.Reply{calls("t#1"), scripted.Text("done")})
		require.NoError(t, tr.err)
		require.Equal(
			t,
			[]string{
				"U:hi",
				"A:[t#1]",
				"T:The call of t was not run: the conversation went on before it was answered.#1",
				"U:x",
			},
			tr.seen(1),
		)
	})
	t.Run("no messages", func(t *testing.T) {
		tr := try(
			t,
			o(once(func([]abi.Message) []abi.Message { return []abi.Message{} })),
			[]scripted.Reply{scripted.Text("x")},
		)
		require.ErrorContains(t, tr.err, "left no messages")
	})
	t.Run("the message event is the truth", func(t *testing.T) {
		tr := try(t, o(once(func(m []abi.Message) []abi.Message {
			m[len(m)-1].Content = abi.Text("new")
			return m
		})), []scripted.Reply{scripted.Text("orig")})
		for _, e := range tr.events {
			if e.Type == abi.EventMessage {
				require.Equal(t, "new", e.Message.Content.String())
				require.True(t, e.Replaced)
				require.Equal(t, abi.OriginModel, e.Message.Origin)
			}
		}
		require.Equal(t, "new", tr.last().Message.Content.String())
	})
}

func TestDanglingCallsOfTheInputAreAnswered(t *testing.T) {
	t.Parallel()
	tr := try(
		t,
		agent.Options{},
		[]scripted.Reply{scripted.Text("done")},
		abi.User(
			"a",
		),
		abi.Message{
			Role:      "assistant",
			ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "x", "{}"), abi.NewToolCall("2", "y", "{}")},
		},
		abi.ToolMessage("2", "y", abi.Text("res")),
		abi.User("b"),
	)
	require.Equal(t, []string{"U:a", "A:[x#1][y#2]",
		"T:The call of x was not run: the conversation went on before it was answered.#1", "T:res#2", "U:b"}, tr.seen(0))
	require.Equal(t, 1, tr.count(abi.EventRepair))
	require.Zero(t, tr.count(abi.EventToolCall), "they are not this run's")
}

// TestObserversSeeEventsAsTheyWereSent checks that observers see every event as the caller does,
// with the same type, number, step and run, and with a time.
func TestObserversSeeEventsAsTheyWereSent(t *testing.T) {
	t.Parallel()
	var seen []abi.Event
	talk := &inproc.Middleware{
		BeforeModel: func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			c.Log(contract.LogInfo, "about to ask")
			return nil, c.Emit("asking", nil)
		},
		Observe: func(_ context.Context, _ *hook.Call, in *abi.ObserveInput) (*abi.ObserveAnswer, error) {
			seen = append(seen, in.Events...)
			return nil, nil
		},
	}
	tr := try(
		t,
		agent.Options{Chain: with(t, nativeEntry("talk", talk)), NoStream: true},
		[]scripted.Reply{scripted.Text("done")},
	)
	require.Len(t, seen, len(tr.events))
	for i, e := range tr.events {
		require.Equal(t, []any{e.Type, e.Seq, e.Step, e.Run}, []any{seen[i].Type, seen[i].Seq, seen[i].Step, seen[i].Run})
		require.NotZero(t, seen[i].TimeMS)
	}
}

// TestCallsOfTheInputAreBounded checks that a run rejects input with too many tool calls, and adds
// no results for those calls.
func TestCallsOfTheInputAreBounded(t *testing.T) {
	t.Parallel()
	open := abi.Assistant("")
	open.ToolCalls = slices.Repeat([]abi.ToolCall{{ID: "c"}}, message.MaxAllCalls+1)
	r := try(t, agent.Options{}, []scripted.Reply{scripted.Text("hello")}, open)
	require.ErrorContains(t, r.err, "input: 10001 tool calls; at most 10000 are allowed")
	require.Empty(t, r.model.Requests())
	require.Less(t, len(r.events), 10)
}

// TestInvalidRawJSONIsRejected checks messages of Go code whose Extra is not JSON. Such a message
// must fail the run or the call that would contain it, because modules would see another message in
// its place.
func TestInvalidRawJSONIsRejected(t *testing.T) {
	t.Parallel()
	bad := abi.User("hi")
	bad.Extra = abi.JSON(`{"a":`)
	nested := abi.Assistant("hi")
	nested.ToolCalls = []abi.ToolCall{{ID: "c", Unknown: abi.Fields{{Name: "x", Value: abi.JSON("}")}}}}

	for _, m := range []abi.Message{bad, nested} {
		r := try(t, agent.Options{}, []scripted.Reply{scripted.Text("hello")}, abi.User("first"), m)
		require.ErrorContains(t, r.err, "input: messages[1]: ")
		require.ErrorContains(t, r.err, "invalid raw JSON")
		require.Empty(t, r.model.Requests())
	}

	add := (*inproc.Middleware)(
		rewritesBefore(func(_ context.Context, m []abi.Message) ([]abi.Message, error) {
			return append(m, bad), nil
		}),
	)
	r := try(t, agent.Options{Chain: with(t, nativeEntry("adds", add))}, []scripted.Reply{scripted.Text("hello")})
	require.ErrorContains(t, r.err, "adds")
	require.ErrorContains(t, r.err, "invalid raw JSON")

	answer := abi.Assistant("hi")
	answer.Extra = bad.Extra
	r = try(t, agent.Options{}, []scripted.Reply{{Response: &abi.Response{Message: answer}}})
	require.ErrorContains(t, r.err, "the message of the model's client: ")
}
