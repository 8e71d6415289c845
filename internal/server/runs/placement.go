package runs

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// Delays, from the expiry of the lease of a waiting run, of a server that could resume the run. Other
// servers may be busy or dead, so every server resumes a run in the end.
const (
	shareDelay   = 75 * time.Millisecond  // the run is in the share of another server
	compileDelay = 150 * time.Millisecond // a module of the run is not compiled here
)

// A waitingRun is a run whose server has ended. This server resumes the run when delay has passed since
// the run's lease expired.
type waitingRun struct {
	*journal.RunInfo
	delay time.Duration
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

// delay returns the time from the expiry of a run's lease after which this server resumes the run.
func (p *placement) delay(info *journal.RunInfo) (d time.Duration) {
	if p.servers == nil {
		return 0
	}
	if p.serverOf(info.ID) != p.self {
		d += shareDelay
	}
	if !p.ready(info.Modules) {
		d += compileDelay
	}
	return d
}

// serverOf returns the server whose share contains a run. All servers that know the same servers
// agree, and the end of a server moves only the runs of its own share (rendezvous hashing).
func (p *placement) serverOf(run string) (server string) {
	highest := uint64(0)
	for _, name := range p.servers {
		if h := xxhash.Sum64String(name + " " + run); server == "" || h > highest || h == highest && name < server {
			server, highest = name, h
		}
	}
	return server
}
