package chunk

import (
	"context"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
)

// A Feed is between somebody who makes chunks and somebody who takes them:
// while the one is busy with some, the next ones gather, and are taken
// together. What gathers is bounded: a slow taker slows the maker.
type Pipe struct {
	waiting Buffer
	ended   atomic.Bool
	more    chan struct{} // holds a token if there is something to take
	room    chan struct{} // holds a token if there may be room again
}

// NewFeed returns an empty feed, for one maker and one taker.
func NewPipe() *Pipe {
	return &Pipe{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Put adds chunks, and waits while too many wait already. The error is the
// cause of ctx's end.
func (f *Pipe) Put(ctx context.Context, chunks ...abi.Chunk) error {
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
func (f *Pipe) End() {
	f.ended.Store(true)
	signal(f.more)
}

// Take returns the chunks that wait, once there are some or no more come; see
// [Gathering.Take]. ended is true once none is left and no more come. The error is
// the cause of ctx's end.
func (f *Pipe) Take(ctx context.Context, most int) (chunks []abi.Chunk, ended bool, err error) {
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
