package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// Limits on the latest events of a run, which are in memory for its followers. Followers that need
// older events read them from the store.
const (
	maxTail      = 1024
	maxTailBytes = 2 << 20
	// maxBatch and maxBatchBytes limit the events that a follower takes at once, and therefore the
	// memory that a slow follower holds.
	maxBatch      = 64
	maxBatchBytes = 128 << 10
)

// An ActiveRun is a run in progress in this process, with its latest events.
type ActiveRun struct {
	ID, tenant string
	Cancel     context.CancelCauseFunc
	Pins       []journal.Pin
	begun      chan struct{}
	ended      chan struct{}

	From      int64 // the number of the last event before this process executed the run
	followers atomic.Int64
	Attached  atomic.Bool // the run is canceled when its last follower leaves
	broadcast *broadcast  // sends the events to other servers; nil if there are none
	activity  *activity   // what the modules of the run do

	mu      sync.Mutex
	tail    []Event
	bytes   int
	encoded bool           // tail has events in the protocol of a client, which the store does not have
	share   *account.Share // share of the tenant's memory, for tail
	changed chan struct{}  // closed when tail or over changes
	over    bool
	failed  error // the error that kept the run from beginning or continuing here, or nil
}

// An Event is an immutable event for followers.
type Event struct {
	Seq     int64
	Type    abi.EventType
	data    []byte            // JSON; nil if the tenant must not see the event
	Encoded []json.RawMessage // in the protocol of the run's client; nil for the server's own
}

// last reports whether the event ends or pauses its run.
func (l *Event) last() bool { return l.Type == abi.EventRunFinished || l.Type == abi.EventRunPaused }

// size estimates the event's memory, in bytes.
func (l *Event) size() int {
	const overhead = 128
	n := overhead + len(l.data)
	for _, b := range l.Encoded {
		n += len(b)
	}
	return n
}

// Size estimates the memory of events, in bytes.
func Size(lines []Event) (n int) {
	for i := range lines {
		n += lines[i].size()
	}
	return n
}

// count sets the memory account of the run's tenant, to which append charges the memory of tail.
func (r *ActiveRun) count(a *account.Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.share = account.NewShare(a)
}

// append adds an event to tail, and wakes the followers. It drops the oldest events, but never the
// new one, if tail is too long or the tenant's memory is full.
func (r *ActiveRun) append(l Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tail) == 0 && r.bytes == 0 {
		close(r.begun)
	}
	r.tail, r.bytes, r.encoded = append(r.tail, l), r.bytes+l.size(), r.encoded || l.Encoded != nil
	for len(r.tail) > 1 && (len(r.tail) > maxTail || r.bytes > maxTailBytes || r.share.Set(int64(r.bytes)) != nil) {
		r.bytes -= r.tail[0].size()
		r.tail[0] = Event{}
		r.tail = r.tail[1:] // append copies the rest when it grows the array
	}
	if len(r.tail) == 1 {
		_ = r.share.Set(int64(r.bytes)) // even if memory is full: followers need the last event
	}
	close(r.changed)
	r.changed = make(chan struct{})
	r.broadcast.event(&l)
}

// announce sends the number of the run's last event to the other servers, and its next events for
// the time followTTL.
func (r *ActiveRun) announce() {
	if r.broadcast == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broadcast.ask()
	if n := len(r.tail); n > 0 {
		r.broadcast.number(&r.tail[n-1])
	}
}

// hasEnded reports whether the run's last event ends or pauses it.
func (r *ActiveRun) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tail) > 0 && r.tail[len(r.tail)-1].last()
}

// fail records the error that keeps the run from beginning or continuing in this process.
func (r *ActiveRun) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// hasBegun reports whether the run's first event is in the journal.
func (r *ActiveRun) hasBegun() bool {
	select {
	case <-r.begun:
		return true
	default:
		return false
	}
}

func (r *ActiveRun) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// end records that the run is over in this process, and wakes the followers. It drops all events
// but the last one from tail, because followers can read them from the store. It keeps them if they
// are encoded for a client, because the store does not have the encoding.
func (r *ActiveRun) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.share.Set(0)
	r.over = true
	if last := len(r.tail) - 1; last > 0 && !r.encoded {
		r.tail = slices.Clone(r.tail[last:])
		r.bytes = r.tail[0].size()
	}
	close(r.changed)
	r.changed = make(chan struct{})
	close(r.ended)
}

// Since returns the next batch of events with numbers greater than after, a channel that is closed
// when more events arrive, and whether the run is over here. ok is false if tail does not have the
// next event.
func (r *ActiveRun) Since(after int64) (lines []Event, changed <-chan struct{}, over, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok = len(r.tail) == 0 && after == 0 || len(r.tail) > 0 && r.tail[0].Seq <= after+1
	for i, l := range r.tail {
		if l.Seq > after {
			n, bytes := i, 0
			for n < len(r.tail) && n-i < maxBatch && (n == i || bytes+r.tail[n].size() <= maxBatchBytes) {
				bytes += r.tail[n].size()
				n++
			}
			lines = slices.Clip(slices.Clone(r.tail[i:n])) // a slice of tail would keep all of it in memory
			break
		}
	}
	return lines, r.changed, r.over, ok
}

// Retained returns the bytes of the events that the run still holds after it is over here, or 0
// before that. The run's tenant is no longer charged for them, so the response that follows the run
// must count them.
func (r *ActiveRun) Retained() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		return 0
	}
	return r.bytes
}

// removeTimeout limits the wait for a paused run to leave this process. Clients may answer as soon
// as they receive the pause, before the run has left.
const removeTimeout = traceTimeout + 2*time.Second

// waitRemoved waits until the run has left this process, until ctx is done, or for at most
// removeTimeout.
func (r *ActiveRun) waitRemoved(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	select {
	case <-r.ended:
	case <-ctx.Done():
	}
}

// wait waits until the run has begun. It returns the error that kept the run from beginning, or the
// cause of ctx if ctx is done first.
func (r *ActiveRun) wait(ctx context.Context) error {
	select {
	case <-r.begun:
	case <-r.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tail) == 0 && r.failed != nil {
		return r.failed
	}
	return nil
}

// errAbandoned is the cause of canceling a run whose last follower has left.
var errAbandoned = errors.New("its client disconnected")

// Follow counts a follower until it calls leave. If the run is Attached and has not ended or paused,
// it is canceled when the last follower leaves.
func (r *ActiveRun) Follow() (leave func()) {
	r.followers.Add(1)
	return func() {
		if r.followers.Add(-1) == 0 && r.Attached.Load() && !r.hasEnded() {
			r.Cancel(errAbandoned)
		}
	}
}

// activeRuns holds the runs in progress in this process.
type activeRuns struct {
	broadcast func(run string) *broadcast // returns the broadcast of a new run; nil without other servers
	mu        sync.Mutex
	runs      map[string]*ActiveRun
}

func newActiveRuns(broadcast func(run string) *broadcast) *activeRuns {
	return &activeRuns{broadcast: broadcast, runs: map[string]*ActiveRun{}}
}

// Add adds a run. It returns nil if the run is already in progress here.
func (l *activeRuns) Add(id, tenant string, pins []journal.Pin, cancel context.CancelCauseFunc) *ActiveRun {
	r := &ActiveRun{
		share:   account.NewShare(nil),
		ID:      id,
		tenant:  tenant,
		Pins:    pins,
		Cancel:  cancel,
		changed: make(chan struct{}),
		begun:   make(chan struct{}),
		ended:   make(chan struct{}),

		activity: newActivity(id, NewRedactor(pins)),
	}
	if l.broadcast != nil {
		r.broadcast = l.broadcast(id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[id] != nil {
		return nil
	}
	l.runs[id] = r
	return r
}

func (l *activeRuns) remove(r *ActiveRun) {
	l.mu.Lock()
	delete(l.runs, r.ID)
	l.mu.Unlock()
	r.end()
}

// Get returns a run of a tenant, or nil if the run is not in progress here.
func (l *activeRuns) Get(tenant, id string) *ActiveRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[id]; r != nil && r.tenant == tenant {
		return r
	}
	return nil
}

// find returns the run with an id, or nil if the run is not in progress here.
func (l *activeRuns) find(id string) *ActiveRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[id]
}

// all returns all runs.
func (l *activeRuns) all() []*ActiveRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*ActiveRun, 0, len(l.runs))
	for _, r := range l.runs {
		out = append(out, r)
	}
	return out
}

// Count returns the number of runs.
func (l *activeRuns) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}
