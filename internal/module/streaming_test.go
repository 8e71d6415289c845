package module

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// trap returns a configuration that makes stream.wasm trap after at batches of chunks. If at is
// "0", stream.wasm does not trap.
func trap(at string) string { return fmt.Sprintf(`{"trap":%q}`, at) }

// streams makes a model call whose model sends pieces as chunks. The result received is the chunks
// that the chain sends to the caller. The function listen is called before each batch of chunks.
func streams(
	ctx context.Context,
	r *testRun,
	listen func(),
	pieces ...string,
) (received []string, res *abi.Response, err error) {
	messages := conversation("hello")
	res, _, err = r.CallModel(ctx, chain.ModelCall{
		Request: chain.ModelRequest{Messages: messages, Stream: true}, State: messages,
		Delivered: func() bool { return len(received) > 0 },
		Out: func(_ context.Context, chunks []abi.Chunk, _ bool) error {
			listen()
			for _, c := range chunks {
				received = append(received, c.Text)
			}
			return nil
		},
		Generate: func(ctx context.Context, _ chain.ModelRequest, out pipe.Sink) (*abi.Response, error) {
			for _, p := range pieces {
				if err := out(ctx, []abi.Chunk{{Kind: abi.ChunkText, Text: p}}, false); err != nil {
					return nil, err
				}
			}
			return &abi.Response{Message: abi.Assistant(strings.Join(pieces, "")), FinishReason: abi.FinishStop}, nil
		}})
	return received, res, err
}

func TestStream(t *testing.T) {
	t.Parallel()
	m := load(t, "stream.wasm", policy.Limits{})
	received, res, err := streams(t.Context(), open(t, configure(t, m, trap("0"))), func() {}, "a", "ä", "\x00\n\"")
	require.NoError(t, err)
	require.Equal(t, "aä\x00\n\"", strings.Join(received, ""))
	require.Equal(t, "aä\x00\n\"", res.Message.Content.String())

	r := open(t, configure(t, m, trap("0")))
	outcome, err := r.callTool(t.Context(),
		func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("whole"), nil })
	require.NoError(t, err)
	require.Equal(t, "whole", outcome.Result.Content.String())
	outcome, err = r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
		return nil, &abi.Error{Code: abi.CodeTool, Message: "out of order"}
	})
	require.NoError(t, err)
	require.True(t, outcome.Result.IsError)
	require.Contains(t, outcome.Result.Content.String(), "out of order")
}

// TestStreamOfOwnTool checks that the chunks that call_tool sends become its result.
func TestStreamOfOwnTool(t *testing.T) {
	t.Parallel()
	r := openRun(t, hook.Entry{
		Name:       "guard",
		Middleware: configure(t, load(t, "stream.wasm", policy.Limits{}), trap("0")),
		Hooks:      []abi.Hook{contract.HookCallTool},
	})
	var received []string
	o, err := r.CallTool(t.Context(), chain.ToolCall{
		Call: abi.Call{
			ID:        "c1",
			Name:      "t",
			Arguments: "{}",
		}, Tool: abi.Tool{Name: "t", Owner: "guard"}, State: conversation("hello"),
		Out: func(_ context.Context, chunks []abi.Chunk, _ bool) error {
			for _, c := range chunks {
				require.Equal(t, "c1", c.CallID)
				received = append(received, c.Text)
			}
			return nil
		}})
	require.NoError(t, err)
	require.Equal(t, []string{"again ", "again "}, received)
	require.Equal(t, "again again ", o.Result.Content.String())
}

// TestStreamRepliesAreBounded checks that no chunk is lost if the JSON of all pending chunks
// exceeds reply_bytes.
func TestStreamRepliesAreBounded(t *testing.T) {
	t.Parallel()
	m := load(t, "stream.wasm", policy.Limits{ReplyBytes: 16 << 10})
	var pieces []string
	for range 12 {
		pieces = append(pieces, strings.Repeat("\x01", 200)) // each byte takes six in JSON
	}
	received, res, err := streams(t.Context(), open(t, configure(t, m, trap("0"))), func() {}, pieces...)
	require.Len(t, received, len(pieces))
	require.NoError(t, err)
	require.Equal(t, strings.Join(pieces, ""), res.Message.Content.String())
}

// TestStreamTime checks that waiting for a reader does not count as the guest's time.
func TestStreamTime(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	m := load(t, "stream.wasm", policy.Limits{Limits: sandbox.Limits{HookTime: limit}})
	received, _, err := streams(t.Context(), open(t, configure(t, m, trap("0"))), func() { time.Sleep(2 * limit) }, "a")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, received)
}

// TestStreamFaults checks the chunks that the chain sends if the guest traps in the middle of a
// stream, with and without on_fault: skip. It also checks the replay of the fault.
func TestStreamFaults(t *testing.T) {
	t.Parallel()
	for _, skip := range []bool{false, true} {
		t.Run(fmt.Sprint(skip), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			piece := strings.Repeat("x", 2000) // the maximum for one reply
			e := hook.Entry{
				Name:       "guard",
				Middleware: configure(t, loadRecording(t, dir, "stream.wasm", policy.Limits{ReplyBytes: 16 << 10}), trap("2")),
			}
			if skip {
				e.OnFault = hook.Skip
			}
			received, res, err := streams(t.Context(), openRun(t, e), func() {}, piece, piece, piece)
			require.Equal(t, []string{piece}, received)
			if skip {
				require.NoError(t, err)
				require.Len(t, res.Message.Content.String(), 3*len(piece))
			} else {
				var fault *ending.FaultError
				require.ErrorAs(t, err, &fault)
			}
			b := onlyBundle(t, dir)
			var calls []string
			for _, c := range b.Call.Calls {
				calls = append(calls, c.Name)
			}
			require.Equal(t, []string{"next_stream", "recv", "send", "recv"}, calls)
			requireSame(t, b)
		})
	}
}
