package chain

import (
	"context"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
)

// How much may wait in a [Feed] before who puts has to wait.
const (
	maxWaiting      = 256
	maxWaitingBytes = 1 << 20
)

// A Feed is between somebody who makes chunks and somebody who takes them:
// while the one is busy with some, the next ones gather, and are taken
// together. What gathers is bounded: a slow taker slows the maker.
type Feed struct {
	mu    sync.Mutex
	queue []abi.Chunk
	size  int // bytes in the queue, about
	ended bool
	more  chan struct{} // holds a token if there is something to take
	room  chan struct{} // holds a token if there may be room again
}

// NewFeed returns an empty feed, for one maker and one taker.
func NewFeed() *Feed {
	return &Feed{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Put adds chunks, and waits while too many wait already. The error is the
// cause of ctx's end.
func (f *Feed) Put(ctx context.Context, chunks ...abi.Chunk) error {
	size := 0
	for i := range chunks {
		size += chunkSize(&chunks[i])
	}
	for {
		f.mu.Lock()
		if len(f.queue) == 0 || len(f.queue)+len(chunks) <= maxWaiting && f.size+size <= maxWaitingBytes {
			f.queue = append(f.queue, chunks...)
			f.size += size
			f.mu.Unlock()
			signal(f.more)
			return nil
		}
		f.mu.Unlock()
		select {
		case <-f.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// End says that no more chunks come.
func (f *Feed) End() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	signal(f.more)
}

// Take returns the chunks that wait, once there are some or no more come:
// all of them, or as many as are at most that many bytes, and at least one.
// ended is true once none is left and no more come. The error is the cause of
// ctx's end.
func (f *Feed) Take(ctx context.Context, most int) (chunks []abi.Chunk, ended bool, err error) {
	for {
		select {
		case <-f.more:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		f.mu.Lock()
		n, size := 0, 0
		for n < len(f.queue) && (n == 0 || size+chunkSize(&f.queue[n]) <= most) {
			size += chunkSize(&f.queue[n])
			n++
		}
		chunks, f.queue = f.queue[:n:n], f.queue[n:]
		f.size -= size
		left, ended := len(f.queue) > 0, f.ended && len(f.queue) == 0
		f.mu.Unlock()
		signal(f.room)
		if left || ended {
			signal(f.more)
		}
		if n > 0 || ended {
			return chunks, ended, nil
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// chunkSize is about how many bytes a chunk takes.
func chunkSize(c *abi.Chunk) int {
	const base = 128
	n := base + len(c.Text) + len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.CallID)
	if c.Part != nil {
		b, _ := abi.Marshal(c.Part)
		n += len(b)
	}
	return n
}
