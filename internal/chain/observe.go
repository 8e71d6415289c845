package chain

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/contract"
)

const (
	// maxQueued is the maximum number of queued events. Events beyond it are dropped.
	maxQueued = 4096
	// maxQueuedBytes is the maximum size of the queued events. Events beyond it are dropped.
	maxQueuedBytes = 16 << 20
	// fullQueue and fullQueueBytes are the number and the size of queued events at which the
	// observers are called at once.
	fullQueue      = 256
	fullQueueBytes = 1 << 20
)

// A queue has the events that observers want and have not received.
type queue struct {
	wanted map[abi.EventType]bool

	mu      sync.Mutex
	events  []abi.Event
	bytes   int64
	shown   int64          // size of the events that the observers are processing
	share   *account.Share // share of the run's memory; nil if memory is not counted
	dropped int64
}

// add queues an event that an observer wants. If the queue or the run's memory is full, add drops
// the event and counts the dropped event.
func (q *queue) add(e *abi.Event) {
	if !q.wanted[e.Type] {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := size.Event(e)
	if len(q.events) >= maxQueued || q.bytes+n > maxQueuedBytes || q.share != nil && q.share.Add(n) != nil {
		q.dropped++
		return
	}
	q.bytes += n
	q.events = append(q.events, *e)
}

// take removes the queued events and returns them in the order in which they were sent.
func (q *queue) take() []abi.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events, q.bytes, q.shown = nil, 0, q.shown+q.bytes
	slices.SortStableFunc(events, func(a, b abi.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return events
}

// release returns the memory of the events that the observers have processed.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.share != nil {
		_ = q.share.Add(-q.shown)
	}
	q.shown = 0
}

// wanted returns the types of events that any of the members observes, or nil if there are
// no observers.
func wanted(members []*hook.Member) map[abi.EventType]bool {
	var out map[abi.EventType]bool
	for _, m := range members {
		if !m.Has(contract.HookObserve) {
			continue
		}
		if out == nil {
			out = m.Observes()
			continue
		}
		out = maps.Clone(out)
		maps.Copy(out, m.Observes())
	}
	return out
}

// Note queues an event for the observers without sending it to the caller.
func (r *Run) Note(e *abi.Event) { r.queue.add(e) }

// Observes reports whether enough events are queued to call the observers at once. If not, the
// observers are called before the run waits for the model or for tools, since the cost of a call
// hardly depends on the number of events.
func (r *Run) Observes() bool {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	return len(r.queue.events) >= fullQueue || r.queue.bytes >= fullQueueBytes
}

// Observers reports whether the run has observers.
func (r *Run) Observers() bool { return len(r.Inward(contract.HookObserve)) > 0 }

// Unobserved reports whether events are queued for observers.
func (r *Run) Unobserved() bool {
	if !r.Observers() {
		return false
	}
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	return len(r.queue.events) > 0
}

// Observe calls the observers with the events that were queued since the last call. It stops at the
// first observer whose error ends or pauses the run.
func (r *Run) Observe(ctx context.Context) {
	observers := r.Inward(contract.HookObserve)
	events := r.queue.take()
	if len(events) == 0 {
		return
	}
	defer r.queue.release()
	for i, m := range observers {
		batch := observed(m, events, i == len(observers)-1)
		if len(batch) == 0 {
			continue
		}
		c := r.Call(m, contract.HookObserve)
		v, err := c.Invoke(ctx, &abi.ObserveInput{Events: batch}, &abi.ObserveAnswer{}, func() error { return nil })
		if err != nil {
			return
		}
		if v.Failed != nil {
			c.LogFailed(v.Failed)
		}
	}
}

// observed returns the events that the member observes, without the content that the member must
// not read. If last is set, the result reuses the slice of events.
func observed(m *hook.Member, events []abi.Event, last bool) []abi.Event {
	batch := events[:0]
	if !last {
		batch = make([]abi.Event, 0, len(events))
	}
	for i := range events {
		if m.Observes()[events[i].Type] {
			batch = append(batch, readable(m, events[i]))
		}
	}
	return batch
}

// readable returns an event without the content that the member must not read: the message, and the
// calls and payloads of interrupts.
func readable(m *hook.Member, e abi.Event) abi.Event {
	if m.Read == "" || m.Read == hook.ReadAll {
		return e
	}
	e.Message = m.MayRead(e.Message)
	e.Interrupts = slices.Clone(e.Interrupts)
	for i := range e.Interrupts {
		e.Interrupts[i].Call, e.Interrupts[i].Payload = nil, nil
	}
	return e
}
