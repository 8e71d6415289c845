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
)

const (
	// maxQueued is how many events wait for the observers; more are dropped.
	maxQueued = 4096
	// maxQueuedBytes bounds the bytes of the events that wait; more are dropped.
	maxQueuedBytes = 16 << 20
	// fullQueue and fullQueueBytes are how many are worth a batch of their own.
	fullQueue      = 256
	fullQueueBytes = 1 << 20
)

// A queue holds the events that the observers have not seen, of those that any of
// them is told of.
type queue struct {
	wanted map[abi.EventType]bool

	mu      sync.Mutex
	events  []abi.Event
	bytes   int64
	shown   int64          // bytes of events that the observers are told of now
	share   *account.Share // of the run's memory; nil: it is not counted
	dropped int64
}

func (q *queue) add(e abi.Event) {
	if !q.wanted[e.Type] {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := size.Event(&e)
	if len(q.events) >= maxQueued || q.bytes+n > maxQueuedBytes || q.share != nil && q.share.Add(n) != nil {
		q.dropped++
		return
	}
	q.bytes += n
	q.events = append(q.events, e)
}

// take returns the events in the order in which they were sent.
func (q *queue) take() []abi.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events, q.bytes, q.shown = nil, 0, q.shown+q.bytes
	slices.SortStableFunc(events, func(a, b abi.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return events
}

// release returns the memory of the events that the observers were told of.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.share != nil {
		_ = q.share.Add(-q.shown)
	}
	q.shown = 0
}

// wanted are the events that any of the members is told of; nil: there are no
// observers.
func wanted(members []*hook.Member) map[abi.EventType]bool {
	var out map[abi.EventType]bool
	for _, m := range members {
		if !m.Has(abi.HookObserve) {
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

// Note adds an event to those that the observers are told of next, without
// sending it to the caller.
func (r *Run) Note(e abi.Event) { r.queue.add(e) }

// Observes reports whether so much has happened that the observers should be told
// at once. Otherwise it is enough to tell them before the run waits for the model
// or for tools: what a batch costs does not depend much on how many events there
// are in it.
func (r *Run) Observes() bool {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	return len(r.queue.events) >= fullQueue || r.queue.bytes >= fullQueueBytes
}

// Observers reports whether there are any.
func (r *Run) Observers() bool { return len(r.Inward(abi.HookObserve)) > 0 }

// Unobserved reports whether there is something that observers are to be told of.
func (r *Run) Unobserved() bool {
	if !r.Observers() {
		return false
	}
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	return len(r.queue.events) > 0
}

// Observe tells the observers of what has happened since they were last told.
func (r *Run) Observe(ctx context.Context) {
	observers := r.Inward(abi.HookObserve)
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
		c := r.Call(m, abi.HookObserve)
		v, err := c.Invoke(ctx, &abi.ObserveInput{Events: batch}, &abi.ObserveAnswer{}, func() error { return nil })
		if err != nil {
			return
		}
		if v.Failed != nil {
			c.LogFailed(v.Failed)
		}
	}
}

// observed are those of the events that the member is told of, as it may read them. The
// last member gets what there is itself.
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

// readable is an event without the messages that the member may not read.
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
