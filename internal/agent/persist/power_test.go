package persist_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
)

// A powerJournal keeps writes in memory until a sync. The power fails at one write, which loses
// that write and all others in memory.
type powerJournal struct {
	journal.Journal
	at int64 // number of the write; 0 for no failure

	mu     sync.Mutex
	writes int64
	memory []func() error
	dead   bool
}

func (p *powerJournal) write(lazy bool, written func(), do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDied
	}
	p.writes++
	p.memory = append(p.memory, do)
	if p.writes == p.at {
		p.dead = true
	}
	if lazy {
		return nil
	}
	p.mu.Unlock()
	if written != nil {
		written()
	}
	for range 9 {
		runtime.Gosched() // let others write
	}
	p.mu.Lock()
	if p.dead {
		return errDied
	}
	var failed error
	for _, do := range p.memory {
		failed = errors.Join(failed, do())
	}
	p.memory = nil
	return failed
}

func (p *powerJournal) Create(ctx context.Context, r *journal.Creation) error {
	return p.write(r.Lazy, nil, func() error { return p.Journal.Create(ctx, r) })
}

func (p *powerJournal) Commit(_ context.Context, c *journal.Commit) error {
	own, written := *c, c.Written
	own.Written = nil
	return p.write(c.Lazy, written, func() error { return p.Journal.Commit(context.Background(), &own) })
}

func (p *powerJournal) Claim(ctx context.Context, c *journal.Claim) (stored *journal.StoredRun, err error) {
	err = p.write(false, nil, func() (err error) {
		stored, err = p.Journal.Claim(ctx, c)
		return err
	})
	return stored, err
}

// isLight reports whether an event may be lost in a power failure after it was delivered.
func isLight(e *abi.Event) bool {
	if e.Type == abi.EventChild {
		e = e.Event
	}
	return e.Type == abi.EventChunk || e.Type == abi.EventStepStarted
}

// crash drops the delivered events with numbers above last, which were not synced. It requires that
// each of them is an event that may be lost.
func (c *taker) crash(last int64) {
	for c.last > last {
		e := &c.all[len(c.all)-1]
		require.True(c.t, isLight(e), "%s was told before it was safe", e.Type)
		c.all, c.last = c.all[:len(c.all)-1], c.last-1
	}
}

// restart executes a run to its end. The power fails at write number at. If at is 0, it does not
// fail.
func restart(t *testing.T, at int64, depth int) (w *world, c *taker, p *powerJournal) {
	s := openStore(t)
	w, c = &world{calls: map[string]int{}, seen: map[int64]abi.EventType{}, depth: depth}, &taker{t: t}
	p = &powerJournal{Journal: s, at: at}
	j := journal.Journal(p)
	start := func() {
		_ = c.take(w.agent(t, j).Run(t.Context(), agent.Input{RunID: "r", Messages: []abi.Message{abi.User("hi")}}))
	}
	start()
	for range 5 {
		if p.dead {
			j = s
		}
		info, loadErr := s.Run(t.Context(), "r")
		if errors.Is(loadErr, journal.ErrNoRun) {
			c.crash(0)
			start()
			continue
		}
		require.NoError(t, loadErr)
		c.crash(info.LastSeq)
		c.catchUp(s)
		if info.Status == journal.StatusFinished {
			break
		}
		var answers map[string]json.RawMessage
		if len(info.Pending) > 0 {
			answers = map[string]json.RawMessage{info.Pending[0].ID: json.RawMessage(`true`)}
		}
		events, resumeErr := w.agent(t, j).Continue(t.Context(), "r", answers)
		if resumeErr != nil {
			require.ErrorIs(t, resumeErr, errDied)
			continue
		}
		_ = c.take(events)
	}
	return w, c, p
}

// TestPowerFailsAtEveryWrite checks that a power failure repeats no call that must not be repeated.
// It must lose no delivered event except those that the resumed run sends again.
func TestPowerFailsAtEveryWrite(t *testing.T) {
	t.Parallel()
	for depth, requireEnd := range []func(*testing.T, *world, *taker){requireComplete, requireChild} {
		w, c, p := restart(t, 0, depth)
		requireEnd(t, w, c)
		for at := int64(1); at <= p.writes+2; at += everyWrite() {
			t.Run(fmt.Sprint(depth, " deep, ", at), func(t *testing.T) {
				t.Parallel()
				w, c, _ := restart(t, at, depth)
				requireEnd(t, w, c)
			})
		}
	}
}

// A busyDisk is a journal that needs syncTime for each sync and stores nothing. It counts its
// writes and syncs.
type busyDisk struct {
	journal.Journal
	waits         atomic.Int64
	written, safe atomic.Int64 // numbers of the last write and of the last synced write
}

const syncTime = time.Second

func (d *busyDisk) Create(context.Context, *journal.Creation) error {
	d.written.Add(1)
	return nil
}

func (d *busyDisk) Commit(_ context.Context, c *journal.Commit) error {
	n := d.written.Add(1)
	if c.Lazy {
		return nil
	}
	c.Written()
	d.waits.Add(1)
	time.Sleep(syncTime)
	d.safe.Store(max(d.safe.Load(), n)) // syncs end in the order of their writes
	return nil
}

func (d *busyDisk) Renew(context.Context, string, int64, time.Duration) (bool, error) {
	return false, nil
}

// A modelFunc is a model that calls a function for each response.
type modelFunc func() (*abi.Response, error)

func (f modelFunc) Generate(context.Context, *model.Request, func(abi.Chunk) error) (*abi.Response, error) {
	return f()
}

// TestWaitsForTheDisk checks that a run waits for the sync before it calls a tool that is not
// idempotent and before it reports its end. It must not wait for other syncs.
func TestWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	const thinks = 10 * time.Millisecond
	for _, c := range []struct {
		name   string
		steps  int // number of steps with a tool call
		unsafe bool
		waits  int64
		writes int64 // not checked if 0
		took   time.Duration
	}{
		{name: "an answer alone", waits: 2, writes: 3, took: thinks + syncTime},
		{name: "tools that may be called again", steps: 3, waits: 8, took: 4*thinks + syncTime},
		{name: "tools with effects", steps: 3, unsafe: true, waits: 8, took: 4*thinks + 4*syncTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &busyDisk{}
				asked, calls := 0, 0
				m := modelFunc(func() (*abi.Response, error) {
					time.Sleep(thinks)
					asked++
					if asked > c.steps {
						return &abi.Response{Message: abi.Assistant("done")}, nil
					}
					m := abi.Assistant("")
					m.ToolCalls = []abi.ToolCall{abi.NewToolCall(fmt.Sprint(asked), "do", "{}")}
					return &abi.Response{Message: m}, nil
				})
				a, err := agent.New(&agent.Options{Model: m, Journal: &journal.Options{Journal: d},
					Tools: []tool.Tool{
						tool.Func(abi.Tool{Name: "do", Idempotent: !c.unsafe}, func(context.Context, abi.Call) (*abi.Result, error) {
							if calls++; c.unsafe {
								require.Equal(t, d.written.Load(), d.safe.Load(), "everything written before the call is synced")
							}
							return abi.TextResult("did"), nil
						}),
					}})
				require.NoError(t, err)
				began := time.Now()
				for e, err := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
					require.NoError(t, err)
					if e.Type == abi.EventRunStarted {
						require.GreaterOrEqual(t, time.Since(began), syncTime, "the event is delivered after the sync")
					}
				}
				require.Equal(t, c.steps, calls)
				require.Equal(t, d.written.Load(), d.safe.Load(), "the end is safe")
				require.Equal(t, c.waits, d.waits.Load())
				if c.writes > 0 {
					require.Equal(t, c.writes, d.written.Load(), "the run writes its start, the start's events, and its end")
				}
				require.Equal(t, c.took, time.Since(began))
			})
		})
	}
}

// A logged journal records the committed log entries.
type logged struct {
	journal.Journal
	mu  sync.Mutex
	log []byte
}

func (l *logged) Create(context.Context, *journal.Creation) error { return nil }

func (l *logged) Commit(_ context.Context, c *journal.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, c.Log...)
	return nil
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.log, []byte(text))
}

// TestAnswerIsKeptBeforeItIsSeen checks that the model's answer is persisted before hooks and tools
// receive it, because they can have external effects.
func TestAnswerIsKeptBeforeItIsSeen(t *testing.T) {
	t.Parallel()
	const answer = "this is the answer"
	for _, where := range []string{
		"wrap_model", "after_model", "after_model_rewrite_state", "gate_tool", "an idempotent tool", "after_agent",
	} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, seen := &logged{}, 0
				see := func() {
					seen++
					require.True(t, l.has(answer))
				}
				n := &inproc.Middleware{}
				switch where {
				case "wrap_model":
					n.WrapModel = func(_ context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
						_, err := c.NextModel(context.Background(), abi.RequestPatch{})
						see()
						return nil, err
					}
				case "after_model":
					n.AfterModel = func(context.Context, *hook.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
						see()
						return nil, nil
					}
				case "after_model_rewrite_state":
					n.AfterModelRewriteState = func(
						context.Context, *hook.Call, *abi.AfterModelRewriteStateInput,
					) (*abi.AfterModelRewriteStateAnswer, error) {
						see()
						return nil, nil
					}
				case "gate_tool":
					n.GateTool = func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
						see()
						return nil, nil
					}
				case "after_agent":
					n.AfterAgent = func(context.Context, *hook.Call, *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
						see()
						return nil, nil
					}
				}
				entries := []hook.Entry{{Name: "looks", Middleware: n}}
				if where == "an idempotent tool" {
					entries = nil
				}
				c, err := chain.New(entries...)
				require.NoError(t, err)
				m := modelFunc(func() (*abi.Response, error) {
					m := abi.Assistant(answer)
					if !l.has(answer) && seen == 0 && strings.HasSuffix(where, "tool") {
						m.ToolCalls = []abi.ToolCall{abi.NewToolCall("1", "do", "{}")}
					}
					return &abi.Response{Message: m}, nil
				})
				a, err := agent.New(&agent.Options{Model: m, Chain: c, Journal: &journal.Options{Journal: l},
					Tools: []tool.Tool{
						tool.Func(abi.Tool{Name: "do", Idempotent: true}, func(context.Context, abi.Call) (*abi.Result, error) {
							if where == "an idempotent tool" {
								see()
							}
							return abi.TextResult("did"), nil
						}),
					}})
				require.NoError(t, err)
				for _, err := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
					require.NoError(t, err)
				}
				require.Positive(t, seen)
			})
		})
	}
}
