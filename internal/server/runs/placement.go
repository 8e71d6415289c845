package runs

import (
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// Delays of a server that could resume a waiting run, from the first search that finds the run. Other
// servers may be busy or dead, so every server resumes a run in the end.
const (
	// shareDelay is the delay for each server that precedes this one in the order of the run, up to
	// maxPreceding of them.
	shareDelay   = 75 * time.Millisecond
	maxPreceding = 2
	// compileDelay is the additional delay while a module of the run is not compiled here.
	compileDelay = 225 * time.Millisecond
	// searchDelay is the time between two searches while runs are left to other servers. A search reads
	// only some of the waiting runs, so the next one may find others.
	searchDelay = 20 * time.Millisecond
)

// A waitingRun is a run that a server must resume. delay is the time from the first search that finds the
// run until this server does so.
type waitingRun struct {
	*journal.RunInfo
	delay time.Duration
}

// waitingRuns has the times at which runs were first found, for the runs that the last search found.
type waitingRuns struct {
	mu    sync.Mutex
	found map[string]time.Time // by run id
}

// ages returns the times for which the runs that a search found have been known to wait.
func (w *waitingRuns) ages(list []journal.RunInfo) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, found, out := time.Now(), make(map[string]time.Time, len(list)), make([]time.Duration, len(list))
	for i := range list {
		at, ok := w.found[list[i].ID]
		if !ok {
			at = now
		}
		found[list[i].ID], out[i] = at, now.Sub(at)
	}
	w.found = found
	return out
}

// A placement determines when this server resumes which waiting runs.
type placement struct {
	self    string
	servers []string // empty for a server that knows of no others
	ready   func(modules []journal.Pin) bool
}

// placement returns the placement for the servers that are known now.
func (r *Service) placement() *placement {
	p := &placement{self: r.options.Owner, ready: r.Agents.Ready}
	if r.options.Servers == nil {
		return p
	}
	if p.servers = r.options.Servers(); len(p.servers) < 2 || !slices.Contains(p.servers, p.self) {
		p.servers = nil
	}
	return p
}

// delay returns the time from the first search that finds a run until this server resumes the run.
func (p *placement) delay(info *journal.RunInfo) time.Duration {
	if p.servers == nil {
		return 0
	}
	d := time.Duration(min(p.preceding(info.ID), maxPreceding)) * shareDelay
	if !p.ready(info.Modules) {
		d += compileDelay
	}
	return d
}

// preceding returns the number of servers that precede this one in the order of a run. All servers that
// know the same servers have the same order (rendezvous hashing).
func (p *placement) preceding(run string) (n int) {
	own := xxhash.Sum64String(p.self + " " + run)
	for _, name := range p.servers {
		if h := xxhash.Sum64String(name + " " + run); h > own || h == own && name < p.self {
			n++
		}
	}
	return n
}
