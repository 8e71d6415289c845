package runs

import (
	"github.com/agent-runner/agent-runner/internal/agent/journal"

	"context"
	"sync"

	"github.com/agent-runner/agent-runner/internal/account"
)

// lives are the runs that go on in this process.
type activeRuns struct {
	mu   sync.Mutex
	runs map[string]*ActiveRun
}

func newActiveRuns() *activeRuns { return &activeRuns{runs: map[string]*ActiveRun{}} }

// add makes a run one that goes on here; nil if it does already.
func (l *activeRuns) Add(id, tenant string, pins []journal.Pin, cancel context.CancelCauseFunc) *ActiveRun {
	r := &ActiveRun{share: account.NewShare(nil), ID: id, tenant: tenant, Pins: pins, Cancel: cancel, changed: make(chan struct{}), begun: make(chan struct{}), ended: make(chan struct{})}
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

// get returns one of a tenant's runs; nil if it does not go on here.
func (l *activeRuns) Get(tenant, id string) *ActiveRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[id]; r != nil && r.tenant == tenant {
		return r
	}
	return nil
}

// find returns the run with an id; nil if it does not go on here.
func (l *activeRuns) find(id string) *ActiveRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[id]
}

// all are the runs that go on here now.
func (l *activeRuns) all() []*ActiveRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*ActiveRun, 0, len(l.runs))
	for _, r := range l.runs {
		out = append(out, r)
	}
	return out
}

// count is how many of them there are.
func (l *activeRuns) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}
