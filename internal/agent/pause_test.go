package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A pauser runs an agent, resumes its paused run with answers, and collects the events.
type pauser struct {
	t      *testing.T
	agent  *agent.Agent
	model  *scripted.Model
	events []abi.Event
	paused *agent.PausedError
	err    error
}

// pause runs an agent with scripted replies until the run pauses or ends.
func pause(t *testing.T, o agent.Options, replies ...scripted.Reply) *pauser {
	t.Helper()
	p := &pauser{t: t, model: scripted.New(replies...)}
	o.Model = p.model
	var err error
	p.agent, err = agent.New(&o)
	require.NoError(t, err)
	p.drain(p.agent.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}, RunID: "r"}))
	return p
}

// drain collects events, and sets p.paused and p.err to the run's end.
func (p *pauser) drain(events iter.Seq2[abi.Event, error]) {
	p.t.Helper()
	p.paused, p.err = nil, nil
	for e, err := range events {
		p.events = append(p.events, e)
		p.err = err
		require.EqualValues(p.t, len(p.events), e.Seq, "the numbers have no gaps")
	}
	errors.As(p.err, &p.paused)
}

// resume resumes the paused run with answers by interrupt id.
func (p *pauser) resume(answers map[string]string) {
	p.t.Helper()
	require.NotNil(p.t, p.paused, "%v", p.err)
	raw := map[string]json.RawMessage{}
	for id, a := range answers {
		raw[id] = json.RawMessage(a)
	}
	events, err := p.agent.Resume(p.t.Context(), p.paused.State, raw)
	require.NoError(p.t, err)
	p.drain(events)
}

// one resumes the run with an answer to its only interrupt.
func (p *pauser) one(answer string) {
	p.t.Helper()
	require.Len(p.t, p.paused.Interrupts, 1)
	p.resume(map[string]string{p.paused.Interrupts[0].ID: answer})
}

// types returns the types of the events except chunks and decisions, whose order depends on the
// order of concurrent calls.
func (p *pauser) types() string {
	var out []string
	for _, e := range p.events {
		if e.Type != abi.EventChunk && e.Type != abi.EventDecision {
			out = append(out, string(e.Type))
		}
	}
	return strings.Join(out, " ")
}

func (p *pauser) result(id string) string {
	for _, e := range p.events {
		if e.Type == abi.EventToolResult && e.Call.ID == id {
			return e.Result.Content.String()
		}
	}
	return ""
}

// asks returns a middleware whose gate asks for an approval of each call of the tool called name.
func asks(name string) *inproc.Middleware {
	return &inproc.Middleware{
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			if in.Call.Name != name {
				return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
			}
			return &abi.GateToolAnswer{Decision: abi.DecideAsk, Message: "May I?", Payload: json.RawMessage(`{"risk":3}`)}, nil
		},
	}
}

// counting returns a tool that counts its calls in n. Its result is its name and arguments.
func counting(name string, n *atomic.Int64) tool.Tool {
	return tool.Func(abi.Tool{Name: name}, func(_ context.Context, c abi.Call) (*abi.Result, error) {
		n.Add(1)
		return abi.TextResult(name + c.Arguments), nil
	})
}

// TestAskSomebody checks the effect of each answer to a gate's question. The resumed run must not
// repeat events or other calls.
func TestAskSomebody(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer, want string
		calls        int64
	}{
		"yes":         {`true`, `t{}`, 1},
		"approve":     {`{"decision":"approve"}`, `t{}`, 1},
		"no":          {`false`, `The call of t was not approved.`, 0},
		"deny, why":   {`{"decision":"deny","message":"not on Fridays"}`, `not on Fridays`, 0},
		"edit":        {`{"decision":"edit","arguments":"{\"x\":2}"}`, `t{"x":2}`, 1},
		"edit denied": {`{"decision":"edit","arguments":"{\"bad\":1}"}`, `not this`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n, other atomic.Int64
			strict := &inproc.Middleware{
				GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
					if strings.Contains(in.Call.Arguments, "bad") {
						return &abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "not this"}, nil
					}
					return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
				},
			}
			p := pause(t, agent.Options{Tools: []tool.Tool{counting("t", &n), counting("u", &other)},
				Chain: with(
					t,
					nativeEntry("strict", strict),
					nativeEntry("asks", asks("t")),
				)}, calls("t#1", "u#2"), scripted.Text("done"))
			require.Equal(t, abi.EventRunPaused, p.events[len(p.events)-1].Type)
			i := p.paused.Interrupts[0]
			require.Equal(
				t,
				abi.Pending{
					ID:      i.ID,
					Entry:   "asks",
					Hook:    contract.HookGateTool,
					Reason:  "May I?",
					Payload: json.RawMessage(`{"risk":3}`),
					Call:    &abi.Call{ID: "1", Name: "t", Arguments: "{}", Owner: "host"},
				},
				i,
			)
			require.Zero(t, n.Load())
			require.EqualValues(t, 1, other.Load(), "siblings finish")

			p.one(tc.answer)
			require.NoError(t, p.err)
			require.Equal(t, tc.want, p.result("1"))
			require.Equal(t, tc.calls, n.Load())
			require.EqualValues(t, 1, other.Load(), "and do not run again")
			require.Equal(
				t,
				"run_started step_started message tool_call tool_call tool_result run_paused tool_result step_finished "+
					"step_started message step_finished run_finished",
				p.types(),
				"no event is delivered twice",
			)
		})
	}
}

func TestAYesIsForTheExactCall(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	round := 0
	change := &inproc.Middleware{
		BeforeTool: func(context.Context, *hook.Call, *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error) {
			round++
			return nil, nil
		},
		WrapToolCall: func(ctx context.Context, c *hook.Call, _ *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			args := `{"sneaky":true}`
			if _, err := c.NextTool(ctx, abi.CallPatch{}); err != nil {
				return nil, err
			}
			_, err := c.NextTool(ctx, abi.CallPatch{Arguments: &args})
			return nil, err
		},
	}
	p := pause(
		t,
		agent.Options{
			Tools: []tool.Tool{counting("t", &n)},
			Chain: with(t, nativeEntry("change", change), nativeEntry("asks", asks("t"))),
		},
		calls("t#1"),
		scripted.Text("done"),
	)
	p.one("true")
	require.NotNil(t, p.paused, "other arguments ask again")
	require.Equal(t, `{"sneaky":true}`, p.paused.Interrupts[0].Call.Arguments)
	require.EqualValues(t, 1, n.Load())
	p.one("false")
	require.NoError(t, p.err)
	require.EqualValues(t, 1, n.Load(), "a completed call is not repeated")
	require.Equal(t, 1, round, "a pipeline hook answers from the record")
}

func TestSomeAnswers(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	p := pause(t, agent.Options{Tools: []tool.Tool{counting("t", &n)}, Chain: with(t, nativeEntry("asks", asks("t")))},
		calls("t#1", "t#2"), scripted.Text("done"))
	require.Len(t, p.paused.Interrupts, 2)
	second := p.paused.Interrupts[1]
	p.resume(map[string]string{p.paused.Interrupts[0].ID: "true"})
	require.Equal(t, []abi.Pending{second}, p.paused.Interrupts, "the other still waits, under its id")
	require.EqualValues(t, 1, n.Load())
	p.one("true")
	require.NoError(t, p.err)
	require.EqualValues(t, 2, n.Load())
}

func TestStateHookInterrupts(t *testing.T) {
	t.Parallel()
	var firsts, answers []string
	first := (*inproc.Middleware)(
		rewritesBefore(func(_ context.Context, m []abi.Message) ([]abi.Message, error) {
			firsts = append(firsts, "called")
			return append(m, abi.User("from first")), nil
		}),
	)
	interrupt := &inproc.Middleware{
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, in *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			n, err := c.LocalAdd("n", 1)
			if err != nil {
				return nil, err
			}
			answers = append(answers, short(c.List(abi.ListState).All())...)
			if in.Resume == nil {
				if _, err := c.LocalSet("seen", json.RawMessage(`true`), abi.LocalAlways); err != nil {
					return nil, err
				}
				return &abi.BeforeModelRewriteStateAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "which?"}},
					Messages: abi.ListPatch{Splice: []abi.Splice{{At: 0, Insert: []abi.Message{abi.User("lost")}}}}}, nil
			}
			if _, ok, _ := c.LocalGet("seen"); !ok || n != 2 {
				return nil, errors.New("run-local values were lost")
			}
			return &abi.BeforeModelRewriteStateAnswer{
				Messages: abi.ListPatch{Splice: []abi.Splice{{At: 0, Insert: []abi.Message{abi.User(string(in.Resume.Answer))}}}},
			}, nil
		},
	}
	p := pause(
		t,
		agent.Options{MaxSteps: 1, Chain: with(t, nativeEntry("first", first), nativeEntry("interrupt", interrupt))},
		scripted.Text("done"),
	)
	require.Empty(t, p.model.Requests())
	p.one(`"blue"`)
	require.NoError(t, p.err, "no step is burnt")
	require.Equal(t, []string{`U:"blue"`, "U:hi", "U:from first"}, short(p.model.Requests()[0].Messages))
	require.Equal(t, []string{"called"}, firsts)
	require.Equal(t, []string{"U:hi", "U:from first", "U:hi", "U:from first"}, answers, "the input it saw")
}

func TestModelIsNotAskedTwice(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]*inproc.Middleware{
		"after_model": {AfterModel: func(_ context.Context, _ *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			if in.Resume == nil {
				return &abi.AfterModelAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "check"}}}, nil
			}
			return nil, nil
		}},
		"wrap_model after next": {WrapModel: func(ctx context.Context, c *hook.Call, in *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			if err := c.Emit("wrapping", nil); err != nil {
				return nil, err
			}
			if _, err := c.NextModel(ctx, abi.RequestPatch{}); err != nil {
				return nil, err
			}
			if in.Resume == nil {
				return &abi.WrapModelAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "check"}}}, nil
			}
			return nil, nil
		}},
		"after_model_rewrite_state": {AfterModelRewriteState: func(_ context.Context, _ *hook.Call, in *abi.AfterModelRewriteStateInput) (*abi.AfterModelRewriteStateAnswer, error) {
			if in.Resume == nil {
				return &abi.AfterModelRewriteStateAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "check"}}}, nil
			}
			return nil, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pause(t, agent.Options{NoStream: true, Chain: with(t, nativeEntry("m", n))}, scripted.Text("once"))
			p.one("true")
			require.NoError(t, p.err)
			require.Len(t, p.model.Requests(), 1)
			require.Equal(t, 1, strings.Count(p.types(), "message"))
			require.LessOrEqual(t, strings.Count(p.types(), "custom"), 1, "events are not repeated")
			require.Equal(t, "once", p.events[len(p.events)-1].Message.Content.String())
		})
	}
}

func TestNoInterruptOnceDelivered(t *testing.T) {
	t.Parallel()
	n := &inproc.Middleware{
		AfterModel: func(context.Context, *hook.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			return &abi.AfterModelAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "check"}}}, nil
		},
	}
	p := pause(t, agent.Options{Chain: with(t, nativeEntry("m", n))}, scripted.Text("told"))
	require.ErrorContains(t, p.err, "an interrupt after a part of the answer was delivered")
}

// TestDeliveredBeforeAPause checks a run that is resumed after it has sent a part of the answer. It
// must send no more chunks, and its message event must say that the message replaces them.
func TestDeliveredBeforeAPause(t *testing.T) {
	t.Parallel()
	n := &inproc.Middleware{
		WrapModel: func(_ context.Context, _ *hook.Call, in *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			if in.Resume == nil {
				return &abi.WrapModelAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "go on?"}}}, nil
			}
			return nil, nil
		},
	}
	p := pause(t, agent.Options{Chain: with(t, nativeEntry("m", n))}, scripted.Text("Hello you"))
	p.paused.State.Streamed = []abi.Chunk{{Kind: abi.ChunkText, Text: "Hel"}}
	p.one("true")
	require.NoError(t, p.err)
	require.Equal(t, "run_started step_started run_paused message step_finished run_finished", p.types())
	for _, e := range p.events {
		require.NotEqual(t, abi.EventChunk, e.Type)
		require.Equal(t, e.Type == abi.EventMessage, e.Replaced)
	}
}

func TestToolInterrupts(t *testing.T) {
	t.Parallel()
	ask := tool.Func(abi.Tool{Name: "ask"}, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		answer, ok := tool.Answer(ctx)
		if !ok {
			return nil, &abi.Interrupt{Reason: "What is your name?"}
		}
		return abi.TextResult(string(answer)), nil
	})
	p := pause(t, agent.Options{Tools: []tool.Tool{ask}}, calls("ask#1"), scripted.Text("done"))
	require.Equal(t, "What is your name?", p.paused.Interrupts[0].Reason)
	p.one(`"Ada"`)
	require.NoError(t, p.err)
	require.Equal(t, `"Ada"`, p.result("1"))
}

func TestBeforeAgentInterrupts(t *testing.T) {
	t.Parallel()
	n := &inproc.Middleware{
		BeforeAgent: func(_ context.Context, _ *hook.Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			if in.Resume == nil {
				return &abi.BeforeAgentAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "who?"}}}, nil
			}
			text := "for " + string(in.Resume.Answer)
			return &abi.BeforeAgentAnswer{Instruction: &text}, nil
		},
	}
	p := pause(t, agent.Options{Chain: with(t, nativeEntry("m", n))}, scripted.Text("done"))
	p.one(`"Ada"`)
	require.NoError(t, p.err)
	require.Equal(t, []string{`S:for "Ada"`, "U:hi"}, short(p.model.Requests()[0].Messages))
}

func TestResumeRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	p := pause(
		t,
		agent.Options{Tools: []tool.Tool{counting("t", &n)}, Chain: with(t, nativeEntry("asks", asks("t")))},
		calls("t#1"),
		scripted.Text("done"),
	)
	id := p.paused.Interrupts[0].ID
	for name, tc := range map[string]struct {
		answers map[string]json.RawMessage
		want    string
	}{
		"unknown id":  {map[string]json.RawMessage{"int_99": []byte("true")}, `no interrupt "int_99"`},
		"no JSON":     {map[string]json.RawMessage{id: []byte("yes")}, "answer to " + id},
		"no decision": {map[string]json.RawMessage{id: []byte(`{"decision":"maybe"}`)}, "want approve, deny or edit"},
		"yes, but":    {map[string]json.RawMessage{id: []byte(`{"decision":"approve","arguments":"{}"}`)}, "edit is the one that runs the call with others"},
		"long name": {
			map[string]json.RawMessage{id: []byte(`{"decision":"approve","approver":"` + strings.Repeat("a", 257) + `"}`)},
			"approver has 257 bytes; at most 256 are allowed",
		},
		"past the end of time": {
			map[string]json.RawMessage{id: []byte(`{"decision":"approve","expires_ms":-1}`)}, "expires_ms is -1",
		},
		"half an edit": {map[string]json.RawMessage{id: []byte(`{"decision":"edit"}`)}, "an edit needs arguments"},
	} {
		_, err := p.agent.Resume(t.Context(), p.paused.State, tc.answers)
		require.ErrorContains(t, err, tc.want, name)
	}
	p.one("true")
	require.NoError(t, p.err, "a refused answer has changed nothing")
	_, err := p.agent.Resume(t.Context(), &runlog.State{}, nil)
	require.ErrorContains(t, err, "does not wait")
}

// TestAnswerIsReported checks that the event of an answer has the digest of the exact arguments, the approver, and
// the key that gave the answer.
func TestAnswerIsReported(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	p := pause(
		t,
		agent.Options{Tools: []tool.Tool{counting("t", &n)}, Chain: with(t, nativeEntry("asks", asks("t")))},
		calls("t#1"),
		scripted.Text("done"),
	)
	later := time.Now().Add(time.Hour).UnixMilli()
	answer := fmt.Sprintf(`{"decision":"approve","message":"fine","approver":"Ada\u202e","expires_ms":%d}`, later)
	p.events = nil
	events, err := p.agent.Resume(agent.AnsweredBy(t.Context(), "key k1"), p.paused.State,
		map[string]json.RawMessage{p.paused.Interrupts[0].ID: json.RawMessage(answer)})
	require.NoError(t, err)
	var reported []abi.Decision
	for e := range events {
		if e.Type == abi.EventDecision {
			require.Equal(t, "asks", e.Entry)
			reported = append(reported, *e.Decision)
		}
	}
	require.Equal(t, []abi.Decision{{
		Decision: abi.Approve, CallID: "1", Tool: "t", Owner: "host", Reason: "fine", Answered: true,
		ArgumentsDigest: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", // of {}
		Approver:        `Ada\u202e`, AnsweredBy: "key k1", ExpiresMS: later,
	}}, reported)
}

// TestResumeWithOtherModules checks that a paused run does not resume with modules other than those
// in its state. A state without modules resumes with any.
func TestResumeWithOtherModules(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	p := pause(
		t,
		agent.Options{Tools: []tool.Tool{counting("t", &n)}, Chain: with(t, nativeEntry("asks", asks("t")))},
		calls("t#1"),
		scripted.Text("done"),
	)
	answers := map[string]json.RawMessage{p.paused.Interrupts[0].ID: []byte("true")}
	other, err := agent.New(
		&agent.Options{
			Model: p.model,
			Tools: []tool.Tool{counting("t", &n)},
			Chain: with(t, nativeEntry("other", asks("u"))),
		},
	)
	require.NoError(t, err)
	b, err := json.Marshal(p.paused.State)
	require.NoError(t, err)
	var state runlog.State
	require.NoError(t, json.Unmarshal(b, &state))
	_, err = other.Resume(t.Context(), &state, answers)
	var pins *journal.PinError
	require.ErrorAs(t, err, &pins)
	require.ErrorContains(t, err, "entry 1 was asks in ring tenant, and is other")
	require.Zero(t, n.Load())
	sometimes := nativeEntry("asks", asks("t"))
	sometimes.When.Tool = []string{"u"}
	other.Chain = with(t, sometimes)
	_, err = other.Resume(t.Context(), &state, answers)
	require.ErrorContains(t, err, "the conditions under which asks is called (when) have changed")
	other.Chain = with(t, nativeEntry("other", asks("u")))

	state.Modules = nil
	p.agent, p.paused.State = other, &state
	p.one("true")
	require.NoError(t, p.err)
	require.EqualValues(t, 1, n.Load())
}

func TestAnAnswerThatComesTooLate(t *testing.T) {
	t.Parallel()
	a := askingAgent(t, calls("t#1"))
	before := time.Now()
	events, err := eventsOf(t, a, agent.Input{})
	var paused *agent.PausedError
	require.ErrorAs(t, err, &paused)
	at := time.UnixMilli(lastOf(events).ExpiresMS)
	require.WithinRange(
		t,
		at,
		before.Add(agent.DefaultPauseTimeout).Truncate(time.Millisecond),
		time.Now().Add(agent.DefaultPauseTimeout),
	)

	state := *paused.State
	state.Expires = before // as if a week had passed
	seq, err := a.Resume(t.Context(), &state, map[string]json.RawMessage{paused.Interrupts[0].ID: json.RawMessage("true")})
	require.NoError(t, err)
	var end abi.Event
	var results []string
	for end, err = range seq {
		if end.Type == abi.EventToolResult {
			results = append(results, end.Result.Content.String())
		}
	}
	var late *agent.ExpiredError
	require.ErrorAs(t, err, &late)
	require.Equal(t, abi.RunError, end.FinishReason)
	require.Equal(t, abi.CodeLimit, end.Error.Code)
	require.Contains(t, end.Error.Message, "waited longer for an answer than it may (168h0m0s, until ")
	require.Equal(
		t,
		[]string{"The call of t was not run: " + late.Error() + "."},
		results,
		"its call has an end",
	)
}

func TestAPauseWithoutALimit(t *testing.T) {
	t.Parallel()
	b := askingAgent(t, calls("t#1"))
	o := b.Options
	o.PauseTimeout = -1
	a, err := agent.New(&o)
	require.NoError(t, err)
	events, err := eventsOf(t, a, agent.Input{})
	var paused *agent.PausedError
	require.ErrorAs(t, err, &paused)
	require.Zero(t, lastOf(events).ExpiresMS)
	require.True(t, paused.State.Expires.IsZero())
}
