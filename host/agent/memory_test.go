package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/chain"
	"github.com/agent-runner/agent-runner/internal/account"
)

// A slowJournal takes a second for each commit.
type slowJournal struct {
	agent.Journal
	bytes atomic.Int64 // of events that are persisted
}

func (j *slowJournal) Create(context.Context, *agent.NewRun) error { return nil }

func (j *slowJournal) Commit(_ context.Context, c *agent.Commit) error {
	time.Sleep(time.Second)
	j.bytes.Add(int64(len(c.Events)))
	return nil
}

func (j *slowJournal) Renew(context.Context, string, int64, time.Duration) (bool, error) {
	return false, nil
}

// A flood emits as much as a hook may, in every hook that may.
type flood struct {
	emitted atomic.Int64 // bytes
	before  func()       // each event
}

var block = json.RawMessage(`"` + strings.Repeat("x", 8<<10) + `"`)

func (f *flood) emit(c *chain.Call) {
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

// native floods in each hook that may emit, and goes on for some steps: it answers for
// the model, with a call of a tool of its own.
func (f *flood) native(steps int) *chain.Native {
	step := 0
	return &chain.Native{
		BeforeAgent: func(_ context.Context, c *chain.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			f.emit(c)
			return &abi.BeforeAgentAnswer{Tools: abi.ToolsPatch{Add: []abi.Tool{{Name: "own"}}}}, nil
		},
		BeforeModelRewriteState: func(_ context.Context, c *chain.Call, _ *abi.BeforeModelRewriteStateInput) (*abi.BeforeModelRewriteStateAnswer, error) {
			f.emit(c)
			return nil, nil
		},
		BeforeModel: func(_ context.Context, c *chain.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			f.emit(c)
			return nil, nil
		},
		WrapModel: func(_ context.Context, c *chain.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			f.emit(c)
			m := abi.Assistant("on")
			if step++; step < steps {
				m.ToolCalls = []abi.ToolCall{abi.NewToolCall(fmt.Sprint(step), "own", "{}")}
			}
			return &abi.WrapModelAnswer{Response: &abi.Response{Message: m}}, nil
		},
		AfterModel: func(_ context.Context, c *chain.Call, _ *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			f.emit(c)
			return nil, nil
		},
		CallTool: func(_ context.Context, c *chain.Call, _ *abi.CallToolInput) (*abi.CallToolAnswer, error) {
			f.emit(c)
			return &abi.CallToolAnswer{Result: abi.TextResult("did")}, nil
		},
		AfterTools: func(_ context.Context, c *chain.Call, _ *abi.AfterToolsInput) (*abi.AfterToolsAnswer, error) {
			f.emit(c)
			return nil, nil
		},
		AfterAgent: func(_ context.Context, c *chain.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			f.emit(c)
			return nil, nil
		},
	}
}

// A run that floods a slow journal waits for it: what it emitted and the journal does
// not have stays bounded.
func TestEventsWaitForASlowJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, f := &slowJournal{}, &flood{}
		var ahead int64
		f.before = func() { ahead = max(ahead, f.emitted.Load()-j.bytes.Load()) }
		process := account.New(account.LevelProcess, "", nil, 1<<30)
		a, err := agent.New(&agent.Options{Model: modelFunc(nil), Chain: with(t, native("flood", f.native(10))), Journal: &agent.JournalOptions{Journal: j, MaxBytes: 1 << 30}})
		require.NoError(t, err)
		var last abi.Event
		for e, err := range a.Run(account.WithContext(t.Context(), process), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
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
