package runs

import (
	"github.com/agent-runner/agent-runner/internal/agent/journal"

	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// How much of a run under way is kept in memory for those who follow it. Who is
// further behind reads from the store.
const (
	maxTail      = 1024
	maxTailBytes = 2 << 20
	// maxTaken and maxTakenBytes bound what a follower takes of it at once, and so
	// what a slow one holds.
	maxBatch      = 64
	maxBatchBytes = 128 << 10
)

// A live is a run that goes on in this process, and the end of what it told.
type ActiveRun struct {
	ID, tenant string
	Cancel     context.CancelCauseFunc
	Pins       []journal.Pin
	begun      chan struct{}
	ended      chan struct{}

	From      int64 // the number of the event before those that are told here
	followers atomic.Int64
	Attached  atomic.Bool // it ends when nobody follows it any more

	mu      sync.Mutex
	tail    []Event
	bytes   int
	share   *account.Share // of the tenant's memory, for tail
	changed chan struct{}  // closed when there is more
	over    bool
	failed  error // why it never began, or goes no further here
}

// A line is an event as followers are sent it. It is not changed.
type Event struct {
	Seq     int64
	Type    abi.EventType
	data    []byte            // JSON; nil: it is not shown
	Encoded []json.RawMessage // what it is in the protocol of who began the run, if it has one
}

// last reports whether no event of its run follows here.
func (l *Event) last() bool { return l.Type == abi.EventRunFinished || l.Type == abi.EventRunPaused }

// size returns about how many bytes a line takes.
func (l *Event) size() int {
	const overhead = 128
	n := overhead + len(l.data)
	for _, b := range l.Encoded {
		n += len(b)
	}
	return n
}

// count counts the tail in the account of the run's tenant.
func (r *ActiveRun) count(a *account.Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.share = account.NewShare(a)
}

// put adds an event. The oldest ones leave the tail if it is too long, or the tenant's
// memory is full.
func (r *ActiveRun) append(l Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tail) == 0 && r.bytes == 0 {
		close(r.begun)
	}
	r.tail, r.bytes = append(r.tail, l), r.bytes+l.size()
	for len(r.tail) > 1 && (len(r.tail) > maxTail || r.bytes > maxTailBytes || r.share.Set(int64(r.bytes)) != nil) {
		r.bytes -= r.tail[0].size()
		r.tail[0] = Event{}
		r.tail = r.tail[1:] // append moves what is left, now and then
	}
	if len(r.tail) == 1 {
		_ = r.share.Set(int64(r.bytes)) // followers need the last one
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// told reports whether the run has told of its end, or that it waits: no event follows.
func (r *ActiveRun) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tail) > 0 && r.tail[len(r.tail)-1].last()
}

// fail says why the run goes no further here.
func (r *ActiveRun) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// hasBegun reports whether the run has told of its beginning: the journal has it.
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

func (r *ActiveRun) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.share.Set(0)
	r.over = true
	close(r.changed)
	r.changed = make(chan struct{})
	close(r.ended)
}

// since returns the next of what came after an event, a channel that is closed when there is
// more, and whether the run is over. ok is false where memory does not reach so far.
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
			lines = slices.Clip(slices.Clone(r.tail[i:n])) // a part of tail would hold all of it
			break
		}
	}
	return lines, r.changed, r.over, ok
}

// leaveTime is how long a run that waits for answers may take to be none that goes on
// here. Whoever is told that it waits may answer before that.
const removeTimeout = traceTimeout + 2*time.Second

// leave waits until the run goes on here no more, or does not end.
func (r *ActiveRun) waitRemoved(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	select {
	case <-r.ended:
	case <-ctx.Done():
	}
}

// wait returns when the run has told of its beginning, or why it did not begin.
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

// errLeft is why a run is canceled that nobody follows any more.
var errAbandoned = errors.New("its client went away")

// follow counts a follower, until it leaves.
func (r *ActiveRun) Follow() (leave func()) {
	r.followers.Add(1)
	return func() {
		if r.followers.Add(-1) == 0 && r.Attached.Load() && !r.hasEnded() {
			r.Cancel(errAbandoned)
		}
	}
}
