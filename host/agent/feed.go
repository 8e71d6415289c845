package agent

import (
	"context"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
)

// maxWaiting is how many chunks may wait for the chain before the model has to.
const maxWaiting = 256

// A feed is between a model that streams and the chain: while on_chunk hooks
// are busy with some chunks, the next ones gather, and are taken together.
type feed struct {
	mu     sync.Mutex
	chunks []abi.Chunk
	done   bool
	more   chan struct{} // holds a token if there is something to take
	room   chan struct{} // holds a token if there is room again
}

func newFeed() *feed {
	return &feed{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds a chunk, and waits while too many wait already.
func (f *feed) put(ctx context.Context, c abi.Chunk) error {
	for {
		f.mu.Lock()
		if len(f.chunks) < maxWaiting {
			f.chunks = append(f.chunks, c)
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

// end says that no more chunks come.
func (f *feed) end() {
	f.mu.Lock()
	f.done = true
	f.mu.Unlock()
	signal(f.more)
}

// take returns all chunks that wait, once there are some or no more come.
func (f *feed) take(ctx context.Context) (chunks []abi.Chunk, done bool, err error) {
	select {
	case <-f.more:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	f.mu.Lock()
	chunks, f.chunks, done = f.chunks, nil, f.done
	f.mu.Unlock()
	signal(f.room)
	return chunks, done, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
