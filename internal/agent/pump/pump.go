// Package pump passes the chunks of a stream from its producer to a chain's sink. It batches the
// chunks that arrive within 0.5 ms. It also joins characters that a stream has cut between two
// chunks. The package does not depend on runs or models.
package pump

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Run calls maker, and passes the chunks that maker puts to out. Chunks that arrive within 0.5 ms
// are passed together, and chunks are queued while on_chunk hooks process earlier ones. If ends is
// set and maker succeeds, the last call of out has final set. If out fails, Run cancels maker's
// context and returns the error of out. A panic of maker becomes an error in which what names the
// maker.
//
// maker runs on the caller's goroutine. If it returns within 0.5 ms, Run starts no other goroutine.
func Run[R any](
	ctx context.Context,
	out pipe.Sink,
	ends bool,
	what string,
	maker func(ctx context.Context, put func(abi.Chunk) error) (R, error),
) (R, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &passing{ctx: ctx, cancel: cancel, out: out}
	room := chunkArrays.Get().(*[usualChunks]abi.Chunk)
	p.waiting.Room(room[:])
	res, failed := call(what, func() (R, error) { return maker(ctx, p.put) })
	if failed == nil {
		failed = p.add(p.joiner.rest()...)
	}
	err := p.end(ends && failed == nil)
	p.waiting.Room(nil) // a maker that continues to put chunks must not use the pooled array
	clear(room[:])
	chunkArrays.Put(room)
	if err != nil {
		var none R
		return none, err
	}
	return res, failed
}

// batchDelay is the time that a chunk waits for other chunks. It is too short for people to notice.
const batchDelay = 500 * time.Microsecond

// chunkArrays pools arrays of chunks. A sink must not keep the chunks that it receives.
var chunkArrays = sync.Pool{New: func() any { return new([usualChunks]abi.Chunk) }}

// usualChunks is the number of chunks that can be queued without an allocation.
const usualChunks = 32

// call calls the maker and turns a panic into an error.
func call[R any](what string, maker func() (R, error)) (res R, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("%s failed: %v", what, v)}
		}
	}()
	return maker()
}

// A passing is the state of one call of Run.
type passing struct {
	ctx    context.Context // the producer's context
	cancel func()
	out    pipe.Sink
	joiner joiner

	waiting pipe.Buffer
	armed   atomic.Bool                // flush is scheduled
	timer   atomic.Pointer[time.Timer] // runs flush; created on first use

	mu     sync.Mutex // held while chunks are passed on
	ended  bool
	failed error // the error that out returned
	broken any   // the value with which out panicked
}

// put accepts a chunk from the maker.
func (p *passing) put(c abi.Chunk) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	if !p.joiner.join(&c) {
		return nil
	}
	if err := p.add(c); err != nil {
		return err
	}
	if p.armed.Swap(true) {
		return nil
	}
	if timer := p.timer.Load(); timer != nil {
		timer.Reset(batchDelay)
		return nil
	}
	p.timer.Store(time.AfterFunc(batchDelay, p.flush))
	return nil
}

// add queues chunks. If they do not fit into the queue, it first passes the queued ones on.
func (p *passing) add(chunks ...abi.Chunk) error {
	for !p.waiting.Add(chunks...) {
		p.flush()
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
	}
	return nil
}

// flush passes queued chunks on. If that fails, it cancels the maker.
func (p *passing) flush() {
	p.armed.Store(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if v := recover(); v != nil {
			p.broken = v
			p.cancel()
		}
	}()
	chunks, _ := p.waiting.Take(math.MaxInt)
	if p.ended || p.failed != nil || p.broken != nil || p.ctx.Err() != nil || len(chunks) == 0 {
		return
	}
	if p.failed = p.out(p.ctx, chunks, false); p.failed != nil {
		p.cancel()
	}
}

// end passes the remaining chunks on. If out has failed, end returns its error. If out has
// panicked, end panics with the same value.
func (p *passing) end(final bool) error {
	if timer := p.timer.Load(); timer != nil {
		timer.Stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	switch {
	case p.broken != nil:
		panic(p.broken)
	case p.failed != nil:
		return p.failed
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	}
	chunks, _ := p.waiting.Take(math.MaxInt)
	if len(chunks) == 0 && !final {
		return nil
	}
	return p.out(p.ctx, chunks, final)
}

// A joiner joins characters that were cut between chunks. It keeps the incomplete character at the
// end of a chunk until the next chunk of the same kind.
type joiner struct {
	held []abi.Chunk
}

// join prepends the kept bytes to a chunk, and keeps the incomplete character at the chunk's end.
// It reports whether to pass the chunk on. It returns false if it keeps the whole text, unless c is
// a tool_call chunk.
func (j *joiner) join(c *abi.Chunk) bool {
	text := &c.Text
	switch c.Kind {
	case abi.ChunkToolCall:
		text = &c.Arguments
	case abi.ChunkPart:
		return true
	}
	before := *text
	for i, h := range j.held {
		if h.Kind == c.Kind && h.Index == c.Index {
			*text = h.Text + *text
			j.held = append(j.held[:i:i], j.held[i+1:]...)
			break
		}
	}
	if cut := len(truncate.Whole(*text)); cut < len(*text) {
		j.held = append(j.held, abi.Chunk{Kind: c.Kind, Index: c.Index, Text: (*text)[cut:]})
		*text = (*text)[:cut]
	}
	return *text != "" || before == "" || c.Kind == abi.ChunkToolCall
}

// rest returns the bytes that the joiner still keeps, as chunks. They are not a complete character.
func (j *joiner) rest() []abi.Chunk {
	for i := range j.held {
		if h := &j.held[i]; h.Kind == abi.ChunkToolCall {
			h.Arguments, h.Text = h.Text, ""
		}
	}
	return j.held
}
