package persist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

var errDied = errors.New("the process died")

// A crashingJournal simulates the death of the process before or after one of its writes.
type crashingJournal struct {
	journal.Journal
	at     int64 // number of the write; 0 for no death
	after  bool
	writes atomic.Int64
	dead   atomic.Bool
}

func (m *crashingJournal) write(do func() error) error {
	n := m.writes.Add(1)
	if m.dead.Load() || m.at > 0 && n > m.at {
		return errDied
	}
	if n == m.at {
		m.dead.Store(true)
		if !m.after {
			return errDied
		}
		if err := do(); err != nil {
			return err
		}
		return errDied
	}
	return do()
}

func (m *crashingJournal) Create(ctx context.Context, r *journal.Creation) error {
	return m.write(func() error { return m.Journal.Create(ctx, r) })
}

func (m *crashingJournal) Commit(ctx context.Context, c *journal.Commit) error {
	return m.write(func() error { return m.Journal.Commit(ctx, c) })
}

func (m *crashingJournal) Claim(ctx context.Context, c *journal.Claim) (stored *journal.StoredRun, err error) {
	err = m.write(func() error {
		stored, err = m.Journal.Claim(ctx, c)
		return err
	})
	return stored, err
}

func openStore(t *testing.T) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), storetest.File(t), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// A world records the side effects of runs. It is shared by all simulated processes.
type world struct {
	mu     sync.Mutex
	calls  map[string]int // number of executions by tool call
	models int
	seen   map[int64]abi.EventType // events seen by the worker's observer
	depth  int                     // number of nested agents around the worker, each of which calls the next one as a tool
	secret string                  // appended to the answers of the model and tools; a middleware removes it
}

func (w *world) count(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[key]++
}

func (w *world) observe(_ context.Context, _ *hook.Call, in *abi.ObserveInput) (*abi.ObserveAnswer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range in.Events {
		if w.seen != nil {
			w.seen[e.Seq] = e.Type
		}
	}
	return nil, nil
}

// requireSeen requires that an observer in one of the processes received the event.
func (w *world) requireSeen(t *testing.T, e *abi.Event) {
	t.Helper()
	if w.seen != nil && e.Type != abi.EventChunk {
		require.Equal(t, e.Type, w.seen[e.Seq], "event %d", e.Seq)
	}
}

// requireStats requires that run_finished has statistics of the entry "counter", which may have
// been called in an earlier process.
func requireStats(t *testing.T, finished *abi.Event) {
	t.Helper()
	for _, s := range finished.Entries {
		if s.Entry == "counter" {
			// wrap_model is called in both steps, and a death loses the statistics of one call at
			// most.
			require.Positive(t, s.Hooks[contract.HookWrapModel])
			require.Positive(t, s.Calls)
			return
		}
	}
	t.Error("nothing of counter")
}

func (w *world) tool(name string, idempotent bool) tool.Tool {
	return tool.Func(
		abi.Tool{Name: name, Idempotent: idempotent},
		func(_ context.Context, c abi.Call) (*abi.Result, error) {
			w.count(name)
			return abi.TextResult(name + " done" + w.secret), nil
		},
	)
}

// Generate calls the tools in the first step and answers in the second.
func (w *world) Generate(_ context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	w.mu.Lock()
	w.models++
	w.mu.Unlock()
	answered := 0
	for _, m := range req.Messages {
		if m.Role == abi.RoleTool {
			answered++
		}
	}
	if answered == 0 {
		m := abi.Assistant("let me see" + w.secret)
		for i, name := range []string{"pay", "look", "asked"} {
			m.ToolCalls = append(
				m.ToolCalls,
				abi.ToolCall{ID: fmt.Sprint("c", i), Type: "function", Function: abi.FunctionCall{Name: name, Arguments: "{}"}},
			)
		}
		return &abi.Response{Message: m, FinishReason: abi.FinishToolCalls, Usage: &abi.Usage{TotalTokens: 10}}, nil
	}
	if sink != nil {
		for _, text := range []string{"all ", "done"} {
			if err := sink(abi.Chunk{Kind: abi.ChunkText, Text: text}); err != nil {
				return nil, err
			}
		}
	}
	return &abi.Response{
		Message:      abi.Assistant("all done" + w.secret),
		FinishReason: abi.FinishStop,
		Usage:        &abi.Usage{TotalTokens: 10},
	}, nil
}

// countsHooks returns a middleware that counts its hook calls in run-local values, and replaces the
// text of the run's answer with the counts.
func countsHooks() *inproc.Middleware {
	add := func(c *hook.Call, key string) error {
		_, err := c.LocalAdd(key, 1)
		return err
	}
	return &inproc.Middleware{
		BeforeAgent: func(_ context.Context, c *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			return nil, errors.Join(add(c, "before_agent"), c.Emit("begun", json.RawMessage(`1`)))
		},
		BeforeTool: func(_ context.Context, c *hook.Call, _ *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error) {
			return nil, add(c, "before_tool")
		},
		WrapToolCall: func(ctx context.Context, c *hook.Call, in *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			if in.Call.Name != "asked" { // the wrapper is called again for "asked" after the pause
				if err := add(c, "wrap_tool_call"); err != nil {
					return nil, err
				}
			}
			res, err := c.NextTool(ctx, abi.CallPatch{})
			return &abi.WrapToolCallAnswer{Result: res}, err
		},
		WrapModel: func(ctx context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			if err := add(c, "wrap_model"); err != nil {
				return nil, err
			}
			res, err := c.NextModel(ctx, abi.RequestPatch{})
			return &abi.WrapModelAnswer{Response: res}, err
		},
		AfterTools: func(_ context.Context, c *hook.Call, _ *abi.AfterToolsInput) (*abi.AfterToolsAnswer, error) {
			return nil, add(c, "after_tools")
		},
		AfterAgent: func(_ context.Context, c *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			var text string
			for _, key := range []string{"before_agent", "before_tool", "wrap_tool_call", "wrap_model", "after_tools"} {
				v, _, err := c.LocalGet(key)
				if err != nil {
					return nil, err
				}
				text += key + "=" + string(v.Value) + " "
			}
			final := *in.Final
			final.Content = abi.Text(text)
			return &abi.AfterAgentAnswer{Final: &final}, nil
		},
	}
}

// eachOnce is the answer of a run with countsHooks in which each hook was called once.
const eachOnce = "before_agent=1 before_tool=3 wrap_tool_call=2 wrap_model=2 after_tools=1 "

func (w *world) agent(t *testing.T, j journal.Journal) *agent.Agent {
	t.Helper()
	entries := []hook.Entry{
		{Name: "counter", Middleware: countsHooks()},
		{Name: "gate", Middleware: asks("asked")},
		{Name: "observer", Middleware: &inproc.Middleware{Observe: w.observe}},
	}
	if w.secret != "" {
		entries = append(entries, hook.Entry{Name: "hider", Middleware: hides()})
	}
	c, err := chain.New(entries...)
	require.NoError(t, err)
	o := &agent.Options{
		Name:  "worker",
		Model: w,
		Chain: c,
		Tools: []tool.Tool{w.tool("pay", false), w.tool("look", true), w.tool("asked", false)},
	}
	for range w.depth {
		inner, err := agent.New(o)
		require.NoError(t, err)
		o = &agent.Options{Name: "asker", Model: &asker{w, inner.Name}, Tools: []tool.Tool{agent.Tool(inner, nil)}}
	}
	o.Journal = &journal.Options{Journal: j, Owner: t.Name(), Gone: func(string) bool { return true }}
	a, err := agent.New(o)
	require.NoError(t, err)
	return a
}

// A taker takes the events of a run from a series of processes, and requires that the events are
// numbered without gaps.
type taker struct {
	t    *testing.T
	last int64
	all  []abi.Event
}

func (c *taker) take(events iter.Seq2[abi.Event, error]) error {
	var last error
	for e, err := range events {
		last = err
		if e.Type == "" {
			continue
		}
		require.Equal(c.t, c.last+1, e.Seq, "%s", e.Type)
		c.last = e.Seq
		c.all = append(c.all, e)
	}
	return last
}

// catchUp takes the events that the last process stored but did not deliver from the store.
func (c *taker) catchUp(s store.Store) {
	events, err := s.Events(c.t.Context(), "r", c.last, 1000)
	if errors.Is(err, journal.ErrNoRun) {
		return
	}
	require.NoError(c.t, err)
	for _, e := range events {
		require.Equal(c.t, c.last+1, e.Seq)
		c.last = e.Seq
		c.all = append(c.all, e)
	}
}

func (c *taker) types() map[abi.EventType]int {
	out := map[abi.EventType]int{}
	for _, e := range c.all {
		out[e.Type]++
	}
	return out
}

// live executes a run to its end in several processes. The first process ends before or after write
// number at. If at is 0, the process survives, and writes is the number of writes of the whole run.
func live(t *testing.T, at int64, after bool, depth int) (w *world, c *taker, writes int64) {
	w = newWorld(depth)
	c, writes = w.live(t, openStore(t), at, after)
	return w, c, writes
}

func newWorld(depth int) *world {
	return &world{calls: map[string]int{}, seen: map[int64]abi.EventType{}, depth: depth}
}

// live is like the function live, for world w and store s.
func (w *world) live(t *testing.T, s store.Store, at int64, after bool) (c *taker, writes int64) {
	c = &taker{t: t}
	m := &crashingJournal{Journal: s, at: at, after: after}
	err := c.take(w.agent(t, m).Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}}))
	if m.dead.Load() {
		require.ErrorIs(t, err, errDied)
	}
	answers := func() map[string]json.RawMessage {
		info, err := s.Run(t.Context(), "r")
		require.NoError(t, err)
		if len(info.Pending) == 0 { // the run does not wait for an answer
			return nil
		}
		require.Len(t, info.Pending, 1)
		return map[string]json.RawMessage{info.Pending[0].ID: json.RawMessage(`true`)}
	}
	for range 5 {
		c.catchUp(s)
		info, loadErr := s.Run(t.Context(), "r")
		if errors.Is(loadErr, journal.ErrNoRun) { // the process died before it created the run
			require.Zero(t, c.last)
			_ = c.take(w.agent(t, m.Journal).Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}}))
			continue
		}
		require.NoError(t, loadErr)
		if info.Status == journal.StatusFinished {
			break
		}
		j := journal.Journal(m)
		if m.dead.Load() {
			j = s
		}
		events, resumeErr := w.agent(t, j).Continue(t.Context(), "r", answers())
		if resumeErr != nil {
			require.ErrorIs(t, resumeErr, errDied)
			continue
		}
		_ = c.take(events)
	}
	return c, m.writes.Load()
}

func TestDeathAtEveryWrite(t *testing.T) {
	t.Parallel()
	w, c, writes := live(t, 0, false, 0)
	require.Greater(t, writes, int64(8))
	requireComplete(t, w, c)
	require.Equal(t, map[string]int{"pay": 1, "look": 1, "asked": 1}, w.calls)
	require.Equal(t, 2, w.models)
	for at := int64(1); at <= writes+2; at += everyWrite() {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(at, map[bool]string{true: " after", false: " before"}[after]), func(t *testing.T) {
				t.Parallel()
				w, c, _ := live(t, at, after, 0)
				requireComplete(t, w, c)
				require.LessOrEqual(t, w.models, 3, "an answered model call is not repeated")
			})
		}
	}
}

// requireComplete requires the events and side effects of a complete run, whether or not processes
// crashed.
func requireComplete(t *testing.T, w *world, c *taker) {
	t.Helper()
	types := c.types()
	require.Equal(t, 1, types[abi.EventRunStarted])
	require.Equal(t, 1, types[abi.EventRunFinished], "%v", types)
	require.Equal(t, 3, types[abi.EventToolCall])
	require.Equal(t, 3, types[abi.EventToolResult])
	require.Equal(t, 2, types[abi.EventMessage])
	require.Equal(t, 2, types[abi.EventStepStarted])
	require.Equal(t, 2, types[abi.EventStepFinished])
	require.LessOrEqual(t, types[abi.EventCustom], 1)
	require.LessOrEqual(t, w.calls["pay"], 1, "it is not idempotent")
	require.LessOrEqual(t, w.calls["asked"], 1, "it is not idempotent")
	require.Positive(t, w.calls["look"])
	last := c.all[len(c.all)-1]
	require.Equal(t, abi.RunStop, last.FinishReason)
	require.Equal(t, eachOnce, last.Message.Content.String())
	require.EqualValues(t, 20, last.Usage.TotalTokens)
	requireStats(t, &last)
	for _, e := range c.all {
		w.requireSeen(t, &e)
		if e.Type == abi.EventToolResult && w.calls[e.Call.Name] == 0 {
			require.JSONEq(t, `{"outcome":"unknown"}`, string(e.Result.Extra), e.Call.Name)
		}
	}
}

func TestTakenOver(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	w := &world{calls: map[string]int{}}
	first := w.agent(t, s)
	entered, leave := make(chan struct{}), make(chan struct{})
	first.Tools = nil
	slow, err := agent.New(&agent.Options{Model: w, Tools: []tool.Tool{
		tool.Func(abi.Tool{Name: "pay"}, func(context.Context, abi.Call) (*abi.Result, error) {
			close(entered)
			<-leave
			w.count("pay")
			return abi.TextResult("late"), nil
		}), w.tool("look", true), w.tool("asked", false)},
		Journal: &journal.Options{Journal: s, Owner: "slow", LeaseTTL: time.Hour}})
	require.NoError(t, err)
	lost := make(chan error, 1)
	go func() {
		var last error
		for _, err := range slow.Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}}) {
			last = err
		}
		lost <- last
	}()
	<-entered
	o := slow.Options
	o.Journal = &journal.Options{Journal: s, Owner: "other"}
	patient, err := agent.New(&o)
	require.NoError(t, err)
	_, err = patient.Continue(t.Context(), "r", nil)
	require.ErrorIs(t, err, journal.ErrBusy)
	o.Journal.Gone = func(owner string) bool { return owner == "slow" }
	other, err := agent.New(&o)
	require.NoError(t, err)
	events, err := other.Continue(t.Context(), "r", nil)
	require.NoError(t, err)
	c := &taker{t: t}
	c.catchUp(s)
	close(leave)
	require.NoError(t, c.take(events))
	err = <-lost
	require.ErrorIs(t, err, journal.ErrFenced)
	var journal *journal.Error
	require.ErrorAs(t, err, &journal)
	require.Equal(t, 1, c.types()[abi.EventRunFinished])
	require.Equal(t, 1, c.types()[abi.EventRunResumed])
	require.Equal(t, 1, w.calls["pay"])
}

func TestOneOfTwoContinues(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	w := &world{calls: map[string]int{}}
	c := &taker{t: t}
	require.Error(
		t,
		c.take(w.agent(t, s).Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}})),
	)
	info, err := s.Run(t.Context(), "r")
	require.NoError(t, err)
	_, err = w.agent(t, s).Continue(t.Context(), "r", nil)
	var waits *journal.WaitingError
	require.ErrorAs(t, err, &waits)
	_, err = w.agent(t, s).Continue(t.Context(), "r", map[string]json.RawMessage{"int_9": json.RawMessage(`true`)})
	require.ErrorContains(t, err, "int_9")
	answers := map[string]json.RawMessage{info.Pending[0].ID: json.RawMessage(`true`)}
	var wg sync.WaitGroup
	var won atomic.Int64
	for range 4 {
		wg.Go(func() {
			a, err := agent.New(&agent.Options{Model: w, Chain: w.agent(t, s).Chain, Tools: w.agent(t, s).Tools,
				Journal: &journal.Options{Journal: s, Owner: "x"}})
			require.NoError(t, err)
			events, err := a.Continue(t.Context(), "r", answers)
			if err != nil {
				return
			}
			won.Add(1)
			require.NoError(t, c.take(events))
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
	requireComplete(t, w, c)
	_, err = w.agent(t, s).Continue(t.Context(), "r", nil)
	require.ErrorIs(t, err, journal.ErrFinished)
	_, err = w.agent(t, s).Continue(t.Context(), "none", nil)
	require.ErrorIs(t, err, journal.ErrNoRun)
}

func TestPinnedModules(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	w := &world{calls: map[string]int{}}
	c := &taker{t: t}
	require.Error(
		t,
		c.take(w.agent(t, s).Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}})),
	)
	other, err := agent.New(&agent.Options{Model: w, Tools: w.agent(t, s).Tools, Journal: &journal.Options{Journal: s}})
	require.NoError(t, err)
	_, err = other.Continue(t.Context(), "r", map[string]json.RawMessage{"int_1": json.RawMessage(`true`)})
	var pins *journal.PinError
	require.ErrorAs(t, err, &pins)
	require.ErrorContains(t, err, "counter is missing")
}

func TestCancelPaused(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	w := &world{calls: map[string]int{}}
	c := &taker{t: t}
	require.Error(
		t,
		c.take(w.agent(t, s).Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}})),
	)
	events, err := w.agent(t, s).Cancel(t.Context(), "r")
	require.NoError(t, err)
	var ended *agent.Error
	require.ErrorAs(t, c.take(events), &ended)
	require.Equal(t, abi.RunCanceled, ended.FinishReason)
	require.Equal(t, 3, c.types()[abi.EventToolResult], "each call has an answer")
	require.Zero(t, w.calls["asked"])
	_, err = w.agent(t, s).Cancel(t.Context(), "r")
	require.ErrorIs(t, err, journal.ErrFinished)
}

func TestCanceledInTheJournal(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	w := &world{calls: map[string]int{}}
	a, err := agent.New(&agent.Options{Model: w, Tools: []tool.Tool{
		tool.Func(abi.Tool{Name: "pay"}, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
			require.NoError(t, s.Cancel(t.Context(), "r"))
			<-ctx.Done()
			return nil, ctx.Err()
		})}, Journal: &journal.Options{Journal: s, LeaseTTL: 50 * time.Millisecond}})
	require.NoError(t, err)
	c := &taker{t: t}
	err = c.take(a.Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}}))
	var ended *agent.Error
	require.ErrorAs(t, err, &ended)
	require.Equal(t, abi.RunCanceled, ended.FinishReason)
	info, err := s.Run(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, journal.StatusFinished, info.Status)
}
