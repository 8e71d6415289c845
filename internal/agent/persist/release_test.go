package persist_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// TestHandBack checks that a run stops at the end of a phase if its process drains. Another process
// must resume the run at once, repeat no call and miss no event.
func TestHandBack(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	ran := 0
	release := make(chan struct{})
	m := scripted.New(scripted.Calls(abi.NewToolCall("1", "t", "{}")), scripted.Text("done"))
	make := func(owner string, back chan struct{}) *agent.Agent {
		a, err := agent.New(&agent.Options{Model: m, Journal: &journal.Options{Journal: s, Owner: owner, Drain: back},
			Tools: []tool.Tool{tool.Func(abi.Tool{Name: "t"}, func(context.Context, abi.Call) (*abi.Result, error) {
				ran++
				close(release)
				return abi.TextResult("ok"), nil
			})}})
		require.NoError(t, err)
		return a
	}
	var seqs []int64
	var lost error
	for e, err := range make("first", release).Run(t.Context(), agent.Input{RunID: "run_1", Messages: []abi.Message{abi.User("go")}}) {
		if err != nil {
			lost = err
			continue
		}
		seqs = append(seqs, e.Seq)
	}
	require.ErrorIs(t, lost, journal.ErrReleased)
	var journal *journal.Error
	require.True(t, errors.As(lost, &journal))
	events, err := make("second", nil).Continue(t.Context(), "run_1", nil)
	require.NoError(t, err, "a released run resumes before the first lease expires")
	var last abi.Event
	for e, err := range events {
		require.NoError(t, err)
		seqs, last = append(seqs, e.Seq), e
	}
	require.Equal(t, "done", last.Message.Content.String())
	require.Equal(t, 1, ran)
	require.Len(t, m.Requests(), 2)
	for i, seq := range seqs {
		require.Equal(t, int64(i+1), seq)
	}
}

// TestLeave checks that a run ends without run_finished if its process aborts. Another process must
// resume the run at once and repeat the tool call, which is idempotent.
func TestLeave(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	leave, began := make(chan struct{}), 0
	m := scripted.New(scripted.Calls(abi.NewToolCall("1", "t", "{}")), scripted.Text("done"))
	make := func(owner string, leave chan struct{}) *agent.Agent {
		a, err := agent.New(&agent.Options{Model: m, Journal: &journal.Options{Journal: s, Owner: owner, Abort: leave},
			Tools: []tool.Tool{
				tool.Idempotent(tool.Func(abi.Tool{Name: "t"}, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
					if began++; began > 1 {
						return abi.TextResult("ok"), nil
					}
					close(leave)
					<-ctx.Done()
					return abi.TextResult("cut off"), nil
				})),
			}})
		require.NoError(t, err)
		return a
	}
	var seqs []int64
	var lost error
	for e, err := range make("first", leave).Run(t.Context(), agent.Input{RunID: "run_1", Messages: []abi.Message{abi.User("go")}}) {
		if err != nil {
			lost = err
			continue
		}
		require.NotEqual(t, abi.EventRunFinished, e.Type)
		seqs = append(seqs, e.Seq)
	}
	require.ErrorIs(t, lost, journal.ErrReleased)
	events, err := make("second", nil).Continue(t.Context(), "run_1", nil)
	require.NoError(t, err, "a released run resumes before the first lease expires")
	var results []string
	for e, err := range events {
		require.NoError(t, err)
		seqs = append(seqs, e.Seq)
		if e.Type == abi.EventToolResult {
			results = append(results, e.Result.Content.String())
		}
	}
	require.Equal(t, []string{"ok"}, results)
	require.Len(t, m.Requests(), 2)
	for i, seq := range seqs {
		require.EqualValues(t, i+1, seq)
	}
}
