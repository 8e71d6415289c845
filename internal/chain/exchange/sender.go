package exchange

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
)

const (
	// Limits of the chunks that one hook call may send.
	maxSent      = 1 << 16  // chunks
	maxSentBytes = 16 << 20 // approximate bytes
)

// A Sender receives the chunks that a hook sends. It collects them as the hook's answer, in case
// the hook returns no other. If Sink is set, it also forwards them at once. Its methods may be
// called concurrently.
type Sender struct {
	Sink   pipe.Sink // receives the chunks; nil if they are not needed before the answer is complete
	OfTool bool
	Meter  *account.Meter // counts the memory of the collected chunks; the caller releases it

	mu        sync.Mutex
	Collected chunkjoin.Assembly
	Sent      int               // number of chunks
	Bytes     int               // approximate size of the chunks
	Failed    *ending.HookError // the error of an on_chunk hook that rejected chunks; later chunks are rejected, too
}

// sending returns a sink that pushes chunks to out, but never marks them as the last ones of a
// message.
func sending(out outlet) pipe.Sink {
	return func(ctx context.Context, chunks []abi.Chunk, _ bool) error { return out.push(ctx, chunks, false) }
}

// Send checks, counts and forwards chunks. It returns an [*abi.Error] if a chunk is invalid, if a
// limit is exceeded, or if an on_chunk hook has rejected chunks. Any other error ends or pauses the
// run.
func (t *Sender) Send(ctx context.Context, chunks []abi.Chunk) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Failed != nil {
		return t.Failed.Err
	}
	total := 0
	for i := range chunks {
		if err := checkChunk(&chunks[i], t.OfTool); err != nil {
			return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("send: chunks[%d]: %v", i, err)}
		}
		total += size.Chunk(&chunks[i])
	}
	if t.Sent+len(chunks) > maxSent || t.Bytes+total > maxSentBytes {
		return &abi.Error{
			Code: abi.CodeLimit,
			Message: fmt.Sprintf("send: a hook can send at most %d chunks and %d bytes in all; the rest was not sent",
				maxSent, maxSentBytes),
		}
	}
	if err := t.Meter.Add(int64(total)); err != nil {
		return ending.LimitOrAbort("send", err)
	}
	t.Sent, t.Bytes = t.Sent+len(chunks), t.Bytes+total
	t.Collected.Add(chunks...)
	if t.Sink == nil || len(chunks) == 0 {
		return nil
	}
	err := t.Sink(ctx, chunks, false)
	if errors.As(err, &t.Failed) {
		return t.Failed.Err
	}
	return err
}

// take returns the collected chunks and removes them.
func (t *Sender) take() []abi.Chunk {
	t.mu.Lock()
	defer t.mu.Unlock()
	pieces := t.Collected.Chunks()
	t.Collected = chunkjoin.Assembly{}
	return pieces
}
