package chain

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
)

// A harness is a host with a scripted model and a caller that records the chunks it receives.
type harness struct {
	mu       sync.Mutex
	events   []abi.Event
	received []abi.Chunk
	finals   int
	calls    int
	canceled error // the cause that canceled the model early

	lines  []string
	fails  error                       // returned by the model after its lines
	listen func(context.Context) error // called before the caller receives chunks; may be nil
	whole  bool                        // the call is not streamed
}

func (h *harness) Where() abi.Run { return abi.Run{ID: "run-1", NowMS: 1} }

func (h *harness) Send(e abi.Event) abi.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	return e
}

func (h *harness) generate(ctx context.Context, _ ModelRequest, out pipe.Sink) (*abi.Response, error) {
	h.mu.Lock()
	h.calls++
	h.mu.Unlock()
	for _, line := range h.lines {
		if out == nil {
			continue
		}
		if err := out(ctx, []abi.Chunk{{Kind: abi.ChunkText, Text: line}}, false); err != nil {
			h.mu.Lock()
			h.canceled = err
			h.mu.Unlock()
			return nil, err
		}
	}
	if h.fails != nil {
		return nil, h.fails
	}
	if out != nil {
		if err := out(ctx, nil, true); err != nil {
			return nil, err
		}
	}
	m := abi.Assistant(strings.Join(h.lines, ""))
	m.Origin = abi.OriginModel
	return &abi.Response{Message: m, FinishReason: abi.FinishStop, Usage: &abi.Usage{TotalTokens: 7}}, nil
}

func (h *harness) out(ctx context.Context, chunks []abi.Chunk, final bool) error {
	if h.listen != nil {
		if err := h.listen(ctx); err != nil {
			return &ending.AbortedError{Cause: err}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.received = append(h.received, chunks...)
	if final {
		h.finals++
	}
	return nil
}

// delivered reports whether the caller has received chunks.
func (h *harness) delivered() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.received) > 0
}

func (h *harness) text() string {
	var b strings.Builder
	for _, c := range h.received {
		b.WriteString(c.Text)
	}
	return b.String()
}

func (h *harness) open(t testing.TB, entries ...hook.Entry) *Run {
	t.Helper()
	c, err := New(entries...)
	require.NoError(t, err)
	r, err := c.Open(t.Context(), abi.Run{ID: "run-1"}, h, local.New())
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// play makes a model call through r. The harness is both the model and the caller.
func (h *harness) play(ctx context.Context, r *Run) (*abi.Response, string, error) {
	call := ModelCall{
		Request:   ModelRequest{Messages: conversation(), Stream: !h.whole},
		State:     conversation(),
		Generate:  h.generate,
		Delivered: h.delivered,
	}
	if !h.whole {
		call.Out = h.out
	}
	return r.CallModel(ctx, call)
}

// A wrap is the function of a wrap_model hook. An empty answer means that the hook returns none.
type wrap func(ctx context.Context, c *hook.Call) (answer string, err error)

func (w wrap) native() *inproc.Middleware {
	return &inproc.Middleware{
		WrapModel: func(ctx context.Context, c *hook.Call, _ *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			answer, err := w(ctx, c)
			if answer == "" || err != nil {
				return nil, err
			}
			return &abi.WrapModelAnswer{Response: &abi.Response{Message: abi.Assistant(answer)}}, nil
		},
	}
}

func textChunk(s string) abi.Chunk { return abi.Chunk{Kind: abi.ChunkText, Text: s} }

// each returns a wrapper that reads the stream, changes the text of each chunk with change, and
// sends the chunk.
func each(change func(string) string) wrap {
	return func(ctx context.Context, c *hook.Call) (string, error) {
		s := c.StreamModel(ctx, abi.RequestPatch{})
		for chunk := range s.Chunks() {
			if err := c.Send(ctx, textChunk(change(chunk.Text))); err != nil {
				return "", err
			}
		}
		return "", s.End()
	}
}

func same(s string) string { return s }
