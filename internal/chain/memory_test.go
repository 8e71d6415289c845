package chain

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// A counted is a theatre with a limit of memory.
type counted struct {
	theatre
	account *account.Account
}

func (c *counted) Account() *account.Account                { return c.account }
func (c *counted) AwaitMemory(context.Context, int64) error { return nil }
func (c *counted) HasMemory(int64) error                    { return nil }

func (c *counted) open(t *testing.T, entries ...Entry) *Run {
	t.Helper()
	all, err := New(entries...)
	require.NoError(t, err)
	r, err := all.Open(t.Context(), "run-1", c, NewLocals())
	require.NoError(t, err)
	r.locals.Count(c.account)
	r.Begin(NewRecord())
	return r
}

// What a stream's rings keep of it is counted while it lasts, and a stream that does not
// fit fails the call.
func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	h := &counted{account: account.New(account.LevelRun, "r", nil, 4<<20)}
	for range 64 {
		h.lines = append(h.lines, strings.Repeat("x", 64<<10))
	}
	pass := &Native{OnChunk: func(_ context.Context, _ *Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
		return &abi.OnChunkAnswer{Chunks: in.Chunks}, nil
	}}
	r := h.open(t, Entry{Name: "a", Middleware: pass}, Entry{Name: "b", Middleware: pass, Ring: Inner})
	_, _, err := r.CallModel(t.Context(), ModelCall{Request: ModelRequest{Messages: talk()}, State: talk(), Generate: h.generate, Out: h.out, Delivered: func() bool { return true }})
	var limit *abi.Error
	require.ErrorAs(t, err, &limit)
	require.Equal(t, abi.CodeLimit, limit.Code)
	require.Contains(t, limit.Message, "memory limit")
	require.False(t, IsEnding(err))
	require.LessOrEqual(t, h.account.Peak(), int64(4<<20))
	r.Close()
	require.Less(t, h.account.Used(), int64(64<<10), "what is left is the record")
}

// Changes of run-local values are noted once for each key, and not for keys that were
// not there.
func TestTouchesAreBounded(t *testing.T) {
	t.Parallel()
	h := &counted{account: account.New(account.LevelRun, "r", nil, 64<<20)}
	r := h.open(t, Entry{Name: "a", Middleware: &Native{WrapModel: func(ctx context.Context, c *Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
		for range 1000 {
			if _, err := c.LocalAdd("n", 1); err != nil {
				return nil, err
			}
		}
		if len(c.touched.list) != 1 {
			return nil, errors.New("a key is noted more than once")
		}
		for i := range 40 {
			if _, err := c.LocalAdd("m"+strconv.Itoa(i%20), 1); err != nil {
				return nil, err
			}
		}
		if len(c.touched.list) != 21 {
			return nil, errors.New("a key is noted more than once, or not")
		}
		for i := range 1000 {
			if err := c.LocalDelete("gone" + strconv.Itoa(i)); err != nil {
				return nil, err
			}
		}
		_, err := c.NextModel(ctx, abi.RequestPatch{})
		return nil, err
	}}})
	_, _, err := r.CallModel(t.Context(), ModelCall{Request: ModelRequest{Messages: talk()}, State: talk(), Generate: h.generate, Delivered: func() bool { return false }})
	require.NoError(t, err)
	require.Len(t, r.locals.holds, 1)
	for hold := range r.locals.holds {
		require.Len(t, hold.keys, 21)
	}
	require.NoError(t, r.Delta(true, func(d *Delta) error {
		require.Len(t, d.Locals, 21)
		require.Equal(t, "2", string(d.Locals[0].Value))
		require.Equal(t, "1000", string(d.Locals[20].Value))
		return nil
	}))
}

// Interrupts of a phase that ask too much are faults of the entry, not a pause.
func TestInterruptsAreBounded(t *testing.T) {
	t.Parallel()
	h := &counted{account: account.New(account.LevelRun, "r", nil, 64<<20)}
	payload := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	asks := &Native{GateTool: func(context.Context, *Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
		return &abi.GateToolAnswer{Decision: abi.DecideAsk, Payload: payload}, nil
	}}
	r := h.open(t, Entry{Name: "gate", Middleware: asks})
	call := func(id string) (ToolOutcome, error) {
		return r.CallTool(t.Context(), ToolCall{Call: abi.Call{ID: id, Name: "t", Arguments: "{}"}, Tool: abi.Tool{Name: "t"}, State: talk()})
	}
	_, err := call("c1")
	var paused *Interrupted
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
