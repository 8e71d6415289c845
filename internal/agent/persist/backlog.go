package persist

import (
	"context"
	"sync"

	"github.com/agent-runner/agent-runner/internal/agent/delivery"
)

// maxBacklog is the number of committed events for the caller at which the run waits for the
// caller.
const maxBacklog = 256

// A backlog passes committed events to the queue of the run's caller, so that a slow caller does
// not block the commits.
type backlog struct {
	mu     sync.Mutex
	events []delivery.Event
	closed bool
	more   chan struct{}
	room   chan struct{}
	done   sync.WaitGroup
}

func newBacklog() backlog {
	return backlog{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// begin starts to send events to the queue in a goroutine.
func (b *backlog) begin(to *delivery.Queue) { b.done.Go(func() { b.deliver(to) }) }

// add appends events, which deliver sends.
func (b *backlog) add(events []delivery.Event) {
	b.mu.Lock()
	b.events = append(b.events, events...)
	b.mu.Unlock()
	signal(b.more)
}

// wait waits until fewer than maxBacklog events are left or ctx is done.
func (b *backlog) wait(ctx context.Context) {
	for {
		b.mu.Lock()
		n := len(b.events)
		b.mu.Unlock()
		if n < maxBacklog {
			return
		}
		select {
		case <-b.room:
		case <-ctx.Done():
			return
		}
	}
}

// close waits until all events are in the queue, and stops deliver. add must not be called
// afterwards.
func (b *backlog) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	signal(b.more)
	b.done.Wait()
}

// deliver sends the events to the queue until the backlog is closed and empty.
func (b *backlog) deliver(to *delivery.Queue) {
	for {
		<-b.more
		b.mu.Lock()
		events, closed := b.events, b.closed
		b.events = nil
		b.mu.Unlock()
		signal(b.room)
		for i := range events {
			to.Send(&events[i])
		}
		if closed && len(events) == 0 {
			return
		}
		if closed {
			signal(b.more)
		}
	}
}
