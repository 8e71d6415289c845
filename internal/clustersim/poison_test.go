package clustersim

import (
	"slices"
	"sync"
)

// A trace is what a poison run leaves of the servers that it ends.
type trace int

const (
	noTrace trace = iota // as SIGKILL does
	report               // a crash report that names no run
	named                // a crash report that names the run
	traces
)

// A poison is a run that ends each of its servers.
type poison struct {
	run   string
	trace trace

	mu    sync.Mutex
	ended []*server
}

// maxEnded returns the number of servers that the run may end before it is quarantined, in a cluster
// whose servers are also killed for other reasons.
func (p *poison) maxEnded() int {
	if p.trace == noTrace {
		return 6
	}
	return 3
}

// end ends a server.
func (p *poison) end(s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.crash() {
		p.ended = append(p.ended, s)
	}
}

// stopped returns the number of servers that the run has ended, and the number of their machines.
func (p *poison) stopped() (servers, machines int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var nodes []string
	for _, s := range p.ended {
		nodes = append(nodes, s.node)
	}
	slices.Sort(nodes)
	return len(nodes), len(slices.Compact(nodes))
}

// poisons are the poison runs of a simulation.
type poisons struct {
	mu   sync.Mutex
	runs map[string]*poison
}

// add adds a run before it begins.
func (p *poisons) add(run string, t trace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs[run] = &poison{run: run, trace: t}
}

// remove removes a run that has not begun.
func (p *poisons) remove(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, run)
}

// of returns a poison run, or nil if the run is another one.
func (p *poisons) of(run string) *poison {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[run]
}

// reports returns the crash report of a server, by its name; nil if it left none.
func (p *poisons) reports(s *server) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, run := range p.runs {
		run.mu.Lock()
		by := slices.Contains(run.ended, s)
		run.mu.Unlock()
		switch {
		case by && run.trace == report:
			return map[string]string{s.name: ""}
		case by && run.trace == named:
			return map[string]string{s.name: run.run}
		}
	}
	return nil
}
