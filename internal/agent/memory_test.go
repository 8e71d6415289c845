package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// A slowJournal takes a second for each commit.
type slowJournal struct {
	journal.Journal
	bytes atomic.Int64 // bytes of persisted events
}

func (j *slowJournal) Create(context.Context, *journal.Creation) error { return nil }

func (j *slowJournal) Commit(_ context.Context, c *journal.Commit) error {
	time.Sleep(time.Second)
	j.bytes.Add(int64(len(c.Events)))
	return nil
}

func (j *slowJournal) Renew(context.Context, string, int64, time.Duration) (bool, error) {
	return false, nil
}

// A flood is a middleware that emits up to 255 events of 8 KiB in each hook.
type flood struct {
	emitted atomic.Int64 // bytes
	before  func()       // called before each event; optional
}

var block = json.RawMessage(`"` + strings.Repeat("x", 8<<10) + `"`)

func (f *flood) emit(c *hook.Call) {
	for range 255 {
		if f.before != nil {
			f.before()
		}
		if c.Emit("flood", block) != nil {
			return
		}
		f.emitted.Add(int64(len(block)))
	}
}

// nativeEntry returns a middleware that emits a flood in each hook that may emit. It answers in
// place of the model: with a call of its own tool in the first steps-1 steps, and then without
// calls.
func (f *flood) nativeEntry(steps int) *inproc.Middleware {
	step := 0
	return &inproc.Middleware{
		BeforeAgent: func(_ context.Context, c *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			f.emit(c)
			return &abi.BeforeAgentAnswer{Tools: abi.ToolsPatch{Add: []abi.Tool{{Name: "own"}}}}, nil
		},
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			f.emit(c)
			return nil, nil
		},
		BeforeModel: func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			f.emit(c)
			return nil, nil
		},
		WrapModel: func(_ context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			f.emit(c)
			m := abi.Assistant("on")
			if step++; step < steps {
				m.ToolCalls = []abi.ToolCall{abi.NewToolCall(fmt.Sprint(step), "own", "{}")}
			}
			return &abi.WrapModelAnswer{Response: &abi.Response{Message: m}}, nil
		},
		AfterModel: func(_ context.Context, c *hook.Call, _ *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			f.emit(c)
			return nil, nil
		},
		CallTool: func(_ context.Context, c *hook.Call, _ *abi.CallToolInput) (*abi.CallToolAnswer, error) {
			f.emit(c)
			return &abi.CallToolAnswer{Result: abi.TextResult("did")}, nil
		},
		AfterTools: func(_ context.Context, c *hook.Call, _ *abi.AfterToolsInput) (*abi.AfterToolsAnswer, error) {
			f.emit(c)
			return nil, nil
		},
		AfterAgent: func(_ context.Context, c *hook.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			f.emit(c)
			return nil, nil
		},
	}
}

// TestEventsWaitForASlowJournal checks that a run waits if it emits events faster than its journal
// stores them. The bytes of events that are not stored must stay within DefaultPending.
func TestEventsWaitForASlowJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, f := &slowJournal{}, &flood{}
		var ahead int64
		f.before = func() { ahead = max(ahead, f.emitted.Load()-j.bytes.Load()) }
		process := account.New(account.LevelProcess, "", nil, 1<<30)
		a, err := agent.New(
			&agent.Options{
				Model:   modelFunc(nil),
				Chain:   with(t, nativeEntry("flood", f.nativeEntry(10))),
				Journal: &journal.Options{Journal: j, MaxBytes: 1 << 30},
			},
		)
		require.NoError(t, err)
		var last abi.Event
		for e, err := range a.Run(account.WithContext(t.Context(), process), agent.Input{
			Messages: []abi.Message{abi.User("hi")},
		}) {
			require.NoError(t, err)
			last = e
		}
		require.Equal(t, abi.RunStop, last.FinishReason)
		require.Greater(t, f.emitted.Load(), int64(100<<20), "it flooded")
		require.LessOrEqual(t, ahead, int64(agent.DefaultPending))
		require.LessOrEqual(t, process.Peak(), int64(3*agent.DefaultPending))
		require.Zero(t, process.Used(), "a run that ended holds nothing")
	})
}

// limited runs an agent in a process with a memory limit of 1 GiB. It calls do, if not nil, with
// each event. It returns the last event, the peak memory of the process in bytes, and the run's
// error.
func limited(
	t *testing.T,
	o *agent.Options,
	do func(process *account.Account, e *abi.Event),
) (last abi.Event, peak int64, failed error) {
	t.Helper()
	process := account.New(account.LevelProcess, "", nil, 1<<30)
	a, err := agent.New(o)
	require.NoError(t, err)
	for e, err := range a.Run(account.WithContext(t.Context(), process), agent.Input{
		Messages: []abi.Message{abi.User("hi")},
	}) {
		last, failed = e, err
		if do != nil {
			do(process, &e)
		}
	}
	require.Zero(t, process.Used(), "a run that ended holds nothing")
	return last, process.Peak(), failed
}

// TestMemoryIsLimited checks that a conversation that exceeds the memory limit ends the run, that a
// run-local value that exceeds the limit is rejected, and that the process can end its largest run.
func TestMemoryIsLimited(t *testing.T) {
	t.Parallel()
	const limit = 8 << 20
	long := strings.Repeat("x", 1<<20)
	value := json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)
	step := func(run func(c *hook.Call) *abi.WrapModelAnswer) *inproc.Middleware {
		return &inproc.Middleware{
			BeforeAgent: func(_ context.Context, _ *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
				return &abi.BeforeAgentAnswer{Tools: abi.ToolsPatch{Add: []abi.Tool{{Name: "own"}}}}, nil
			},
			WrapModel: func(_ context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
				return run(c), nil
			},
			CallTool: func(context.Context, *hook.Call, *abi.CallToolInput) (*abi.CallToolAnswer, error) {
				return &abi.CallToolAnswer{Result: abi.TextResult(long)}, nil
			},
		}
	}
	n := 0
	again := func() *abi.WrapModelAnswer {
		n++
		m := abi.Assistant("on")
		m.ToolCalls = []abi.ToolCall{abi.NewToolCall(fmt.Sprint(n), "own", "{}")}
		return &abi.WrapModelAnswer{Response: &abi.Response{Message: m}}
	}
	done := &abi.WrapModelAnswer{Response: &abi.Response{Message: abi.Assistant("done")}}

	t.Run("a conversation that grows ends the run", func(t *testing.T) {
		last, peak, err := limited(t, &agent.Options{Model: modelFunc(nil), MaxSteps: 100, Memory: limit,
			Chain: with(t, nativeEntry("grows", step(func(*hook.Call) *abi.WrapModelAnswer { return again() })))}, nil)
		var full *agent.MemoryError
		require.ErrorAs(t, err, &full)
		require.Equal(t, []any{"run", int64(limit)}, []any{full.Level, full.Limit})
		require.Equal(t, abi.RunLimit, last.FinishReason)
		require.Equal(t, abi.CodeLimit, last.Error.Code)
		require.Contains(t, last.Error.Message, "the run holds")
		require.LessOrEqual(t, peak, int64(2*limit))
	})
	t.Run("run-local values are refused", func(t *testing.T) {
		var failed error
		entry := func(name string) hook.Entry {
			return nativeEntry(name, step(func(c *hook.Call) *abi.WrapModelAnswer {
				_, _ = c.NextModel(t.Context(), abi.RequestPatch{})
				if _, err := c.LocalSet("key", value, 0); err != nil {
					failed = err
				}
				return done
			}))
		}
		var entries []hook.Entry
		for i := range 4 {
			entries = append(entries, entry(fmt.Sprint("e", i)))
		}
		for i := range entries[1:] {
			entries[i+1].Middleware.(*inproc.Middleware).BeforeAgent = nil
			entries[i+1].Middleware.(*inproc.Middleware).CallTool = nil
		}
		last, _, err := limited(
			t,
			&agent.Options{
				Model:  modelFunc(func() (*abi.Response, error) { return done.Response, nil }),
				Memory: limit,
				Chain:  with(t, entries...),
			},
			nil,
		)
		require.NoError(t, err)
		require.Equal(t, abi.RunStop, last.FinishReason)
		var limit *abi.Error
		require.ErrorAs(t, failed, &limit)
		require.Equal(t, abi.CodeLimit, limit.Code)
		require.Contains(t, limit.Message, "memory limit")
	})
	t.Run("the largest run can be ended", func(t *testing.T) {
		why := &agent.MemoryError{Level: "process", Limit: 7, Err: fmt.Errorf("the process is short of memory")}
		last, _, err := limited(t, &agent.Options{Model: modelFunc(nil), MaxSteps: 1000,
			Chain: with(t, nativeEntry("goes on", step(func(*hook.Call) *abi.WrapModelAnswer { return again() })))},
			func(process *account.Account, e *abi.Event) {
				if e.Type == abi.EventStepFinished && e.Step == 1 {
					require.True(t, process.Largest().Cancel(why))
				}
			})
		require.ErrorIs(t, err, why)
		require.Equal(t, abi.RunLimit, last.FinishReason)
	})
}

// TestMemoryOfSubAgents checks that a sub-agent uses the memory account of the run that called it.
// If it emits more than 40 MiB of events, it must stay within five times the pending memory of one
// run.
func TestMemoryOfSubAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flood{}
		inner, err := agent.New(
			&agent.Options{Name: "inner", Model: modelFunc(nil), Chain: with(t, nativeEntry("flood", f.nativeEntry(5)))},
		)
		require.NoError(t, err)
		asked := 0
		outer := modelFunc(func() (*abi.Response, error) {
			m := abi.Assistant("ask")
			if asked++; asked == 1 {
				m.ToolCalls = []abi.ToolCall{abi.NewToolCall("1", "inner", `{"request":"go"}`)}
			}
			return &abi.Response{Message: m}, nil
		})
		j := &slowJournal{}
		last, peak, err := limited(
			t,
			&agent.Options{
				Model:   outer,
				Tools:   []tool.Tool{agent.Tool(inner, nil)},
				Journal: &journal.Options{Journal: j, MaxBytes: 1 << 30},
			},
			nil,
		)
		require.NoError(t, err)
		require.Equal(t, abi.RunStop, last.FinishReason)
		require.Greater(t, f.emitted.Load(), int64(40<<20))
		require.LessOrEqual(t, peak, int64(5*agent.DefaultPending))
	})
}

// TestParallelToolsAreCounted checks that the chunks that parallel tool calls send and the
// run-local values that they stage are counted while the calls run. Those beyond the limit must be
// rejected.
func TestParallelToolsAreCounted(t *testing.T) {
	t.Parallel()
	const calls, limit = 8, 16 << 20
	ask := func() func() (*abi.Response, error) {
		asked := 0
		return func() (*abi.Response, error) {
			m := abi.Assistant("ask")
			if asked++; asked == 1 {
				for i := range calls {
					m.ToolCalls = append(m.ToolCalls, abi.NewToolCall(fmt.Sprint("c", i), "own", "{}"))
				}
			}
			return &abi.Response{Message: m}, nil
		}
	}
	chunk := abi.Chunk{Kind: abi.ChunkToolResult, Text: strings.Repeat("x", 1<<20)}
	value := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	for name, hold := range map[string]func(ctx context.Context, c *hook.Call, n int) error{
		"sent": func(ctx context.Context, c *hook.Call, _ int) error { return c.Send(ctx, chunk) },
		"staged": func(_ context.Context, c *hook.Call, n int) error {
			_, err := c.LocalSet(fmt.Sprint(n), value, -1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var held atomic.Int64
			var refused sync.Map
			var all sync.WaitGroup
			all.Add(calls)
			own := &inproc.Middleware{
				BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
					return &abi.BeforeAgentAnswer{Tools: abi.ToolsPatch{Add: []abi.Tool{{Name: "own"}}}}, nil
				},
				CallTool: func(ctx context.Context, c *hook.Call, in *abi.CallToolInput) (*abi.CallToolAnswer, error) {
					for n := range 3 {
						if err := hold(ctx, c, n); err != nil {
							refused.Store(in.Call.ID, err)
							break
						}
						held.Add(1 << 20)
					}
					all.Done()
					all.Wait() // all calls are in progress
					return &abi.CallToolAnswer{Result: abi.TextResult("did")}, nil
				},
			}
			var entries []hook.Entry
			entries = append(entries, nativeEntry("own", own))
			_, peak, err := limited(
				t,
				&agent.Options{Model: modelFunc(ask()), NoStream: true, Parallel: calls, Memory: limit, Chain: with(t, entries...)},
				nil,
			)
			require.NoError(t, err)
			require.LessOrEqual(t, held.Load(), int64(limit))
			require.LessOrEqual(t, peak, int64(2*limit))
			some := false
			refused.Range(func(_, err any) bool {
				some = true
				var limit *abi.Error
				require.ErrorAs(t, err.(error), &limit)
				require.Equal(t, abi.CodeLimit, limit.Code)
				require.Contains(t, limit.Message, "memory limit")
				return true
			})
			require.True(t, some)
		})
	}
}

// TestToolResultsAreCounted checks that a round of tool calls whose results exceed the memory limit
// ends the run before all tools are called.
func TestToolResultsAreCounted(t *testing.T) {
	t.Parallel()
	const calls, limit = 64, 16 << 20
	m := modelFunc(func() (*abi.Response, error) {
		m := abi.Assistant("ask")
		for i := range calls {
			m.ToolCalls = append(m.ToolCalls, abi.NewToolCall(fmt.Sprint("c", i), "big", "{}"))
		}
		return &abi.Response{Message: m}, nil
	})
	var called atomic.Int64
	big := tool.Func(abi.Tool{Name: "big"}, func(context.Context, abi.Call) (*abi.Result, error) {
		called.Add(1)
		return abi.TextResult(strings.Repeat("x", 1<<20)), nil
	})
	last, peak, err := limited(t, &agent.Options{Model: m, Tools: []tool.Tool{big}, Memory: limit}, nil)
	var full *agent.MemoryError
	require.ErrorAs(t, err, &full)
	require.Equal(t, abi.RunLimit, last.FinishReason)
	require.Less(t, called.Load(), int64(calls))
	require.LessOrEqual(t, peak, int64(3*limit))
}

// A modelFunc is a model that calls a function for each response.
type modelFunc func() (*abi.Response, error)

func (f modelFunc) Generate(context.Context, *model.Request, func(abi.Chunk) error) (*abi.Response, error) {
	return f()
}
