package pipe

import (
	"context"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
)

// A Pipe passes chunks from a producer to a consumer. The consumer takes all chunks together that
// arrived while it was busy. The buffer is bounded, so that a slow consumer slows the producer.
type Pipe struct {
	waiting Buffer
	ended   atomic.Bool
	more    chan struct{} // has a token if the buffer may have chunks or the pipe has ended
	room    chan struct{} // has a token if the buffer may be able to take more chunks
}

// NewPipe returns an empty pipe for one producer and one consumer.
func NewPipe() *Pipe {
	return &Pipe{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Put adds chunks, and waits while the buffer is full. If ctx is done, Put returns the cause.
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

// End marks the end of the chunks. The producer must not call Put afterwards.
func (f *Pipe) End() {
	f.ended.Store(true)
	signal(f.more)
}

// Take waits until chunks are available or the pipe has ended, and returns chunks like
// [Buffer.Take]. ended is true if no chunks are left and none will arrive. If ctx is done, Take
// returns the cause.
func (f *Pipe) Take(ctx context.Context, limit int) (chunks []abi.Chunk, ended bool, err error) {
	for {
		select {
		case <-f.more:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		over := f.ended.Load() // load ended before taking, so that no chunk of an ended pipe is missed
		chunks, left := f.waiting.Take(limit)
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

// signal sends a token unless there is one already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
