package chain

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
)

// How much may wait in a [Gathering].
const (
	maxWaiting      = 256
	maxWaitingBytes = 1 << 20
)

// A Gathering are chunks that wait to be taken together. How many there may be is
// bounded. Its zero value is empty.
type Gathering struct {
	mu    sync.Mutex
	queue []abi.Chunk
	size  int // bytes in the queue, about
}

// Add adds chunks, unless too many wait already.
func (g *Gathering) Add(chunks ...abi.Chunk) bool {
	size := int(sizeOfChunks(chunks))
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) > 0 && (len(g.queue)+len(chunks) > maxWaiting || g.size+size > maxWaitingBytes) {
		return false
	}
	g.queue = append(g.queue, chunks...)
	g.size += size
	return true
}

// Room gives an empty gathering room for chunks that is not its own.
func (g *Gathering) Room(room []abi.Chunk) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue, g.size = room[:0], 0
}

// Take takes the chunks that wait: all of them, or as many as are at most that many
// bytes, and at least one. It returns how many are left.
func (g *Gathering) Take(most int) (chunks []abi.Chunk, left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, size := 0, 0
	for n < len(g.queue) && (n == 0 || size+chunkSize(&g.queue[n]) <= most) {
		size += chunkSize(&g.queue[n])
		n++
	}
	chunks, g.queue = g.queue[:n:n], g.queue[n:]
	g.size -= size
	return chunks, len(g.queue)
}

// A Feed is between somebody who makes chunks and somebody who takes them:
// while the one is busy with some, the next ones gather, and are taken
// together. What gathers is bounded: a slow taker slows the maker.
type Feed struct {
	waiting Gathering
	ended   atomic.Bool
	more    chan struct{} // holds a token if there is something to take
	room    chan struct{} // holds a token if there may be room again
}

// NewFeed returns an empty feed, for one maker and one taker.
func NewFeed() *Feed {
	return &Feed{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Put adds chunks, and waits while too many wait already. The error is the
// cause of ctx's end.
func (f *Feed) Put(ctx context.Context, chunks ...abi.Chunk) error {
	for !f.waiting.Add(chunks...) {
		select {
		case <-f.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	signal(f.more)
	return nil
}

// End says that no more chunks come.
func (f *Feed) End() {
	f.ended.Store(true)
	signal(f.more)
}

// Take returns the chunks that wait, once there are some or no more come; see
// [Gathering.Take]. ended is true once none is left and no more come. The error is
// the cause of ctx's end.
func (f *Feed) Take(ctx context.Context, most int) (chunks []abi.Chunk, ended bool, err error) {
	for {
		select {
		case <-f.more:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		over := f.ended.Load() // before it is looked what waits
		chunks, left := f.waiting.Take(most)
		ended := over && left == 0
		signal(f.room)
		if left > 0 || ended {
			signal(f.more)
		}
		if len(chunks) > 0 || ended {
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

// sizeOfChunks returns about how many bytes chunks take.
func sizeOfChunks(chunks []abi.Chunk) int64 {
	n := 0
	for i := range chunks {
		n += chunkSize(&chunks[i])
	}
	return int64(n)
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
