package chain

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// A counted is a harness with a memory limit for its runs.
type counted struct {
	harness
	account *account.Account
}

func (c *counted) Account() *account.Account                { return c.account }
func (c *counted) AwaitMemory(context.Context, int64) error { return nil }
func (c *counted) HasMemory(int64) error                    { return nil }

func (c *counted) open(t *testing.T, entries ...hook.Entry) *Run {
	t.Helper()
	all, err := New(entries...)
	require.NoError(t, err)
	r, err := all.Open(t.Context(), abi.Run{ID: "run-1"}, c, local.New())
	require.NoError(t, err)
	r.Locals.Count(c.account)
	r.Begin(record.New())
	return r
}

// TestStreamsAreCounted checks that the chunks of a stream are counted as memory of the run while
// the stream lasts, and that a stream that exceeds the memory limit fails the call.
func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	h := &counted{account: account.New(account.LevelRun, "r", nil, 4<<20)}
	for range 64 {
		h.lines = append(h.lines, strings.Repeat("x", 64<<10))
	}
	pass := &inproc.Middleware{
		OnChunk: func(_ context.Context, _ *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			return &abi.OnChunkAnswer{Chunks: in.Chunks}, nil
		},
	}
	r := h.open(t, hook.Entry{Name: "a", Middleware: pass}, hook.Entry{Name: "b", Middleware: pass, Ring: hook.Inner})
	_, _, err := r.CallModel(
		t.Context(),
		ModelCall{
			Request:   ModelRequest{Messages: conversation()},
			State:     conversation(),
			Generate:  h.generate,
			Out:       h.out,
			Delivered: func() bool { return true },
		},
	)
	var limit *abi.Error
	require.ErrorAs(t, err, &limit)
	require.Equal(t, abi.CodeLimit, limit.Code)
	require.Contains(t, limit.Message, "memory limit")
	require.False(t, ending.Is(err))
	require.LessOrEqual(t, h.account.Peak(), int64(4<<20))
	r.Close()
	require.Less(t, h.account.Used(), int64(64<<10), "what is left is the record")
}

// TestInterruptsAreBounded checks that an interrupt is a fault of its entry if the payloads of all
// interrupts exceed the limit of a phase. The run must not pause.
func TestInterruptsAreBounded(t *testing.T) {
	t.Parallel()
	h := &counted{account: account.New(account.LevelRun, "r", nil, 64<<20)}
	payload := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	asks := &inproc.Middleware{
		GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: abi.DecideAsk, Payload: payload}, nil
		},
	}
	r := h.open(t, hook.Entry{Name: "gate", Middleware: asks})
	call := func(id string) (ToolOutcome, error) {
		return r.CallTool(
			t.Context(),
			ToolCall{Call: abi.Call{ID: id, Name: "t", Arguments: "{}"}, Tool: abi.Tool{Name: "t"}, State: conversation()},
		)
	}
	_, err := call("c1")
	var paused *ending.InterruptedError
	require.ErrorAs(t, err, &paused)
	o, err := call("c2")
	require.NoError(t, err)
	require.True(t, o.Result.IsError)
	require.Equal(t, "gate", o.Source)
	faults := 0
	for _, e := range h.events {
		if e.Type == abi.EventFault {
			faults++
			require.Contains(t, e.Cause, "ask for less")
		}
	}
	require.Equal(t, 1, faults)
}

// TestInterruptWithoutRoomForItsWrites checks that an interrupt does not pause the run if the
// hook's writes exceed the limit of run-local values. The faults of the entry are skipped in this
// test.
func TestInterruptWithoutRoomForItsWrites(t *testing.T) {
	t.Parallel()
	half := []byte(`"` + strings.Repeat("x", 3<<20) + `"`)
	asks := &inproc.Middleware{
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			_, staged := c.LocalSet("staged", half, abi.LocalAlways)
			_, stored := c.LocalSet("stored", half, 0)
			require.NoError(t, errors.Join(staged, stored))
			return &abi.BeforeModelRewriteStateAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "which?"}}}, nil
		},
	}
	h := &harness{}
	r := h.open(t, hook.Entry{Name: "asks", OnFault: hook.Skip, Middleware: asks})
	r.Begin(record.New())
	_, err := r.BeforeModelRewriteState(t.Context(), Draft{Messages: conversation()})
	require.NoError(t, err)
	require.Len(t, h.events, 1)
	require.Equal(t, "skipped", h.events[0].Action)
	require.Contains(t, h.events[0].Cause, "run-local values are limited")
}
