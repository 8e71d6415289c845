package runs

import (
	"context"
	"sync"

	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// activeRuns holds the runs in progress in this process.
type activeRuns struct {
	mu   sync.Mutex
	runs map[string]*ActiveRun
}

func newActiveRuns() *activeRuns { return &activeRuns{runs: map[string]*ActiveRun{}} }

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
