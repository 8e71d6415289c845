package runs

import (
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// Limits on the interval between two queries for the state of a run that another process executes.
// The interval doubles while the run has no new events.
const (
	minPollInterval = 250 * time.Millisecond
	maxPollInterval = time.Second
)

// polls shares the queries for the states of runs among the followers in this process.
type polls struct {
	mu   sync.Mutex
	runs map[string]*poll // by run id
}

// A poll queries the store for the state of one run.
type poll struct {
	followers int // guarded by the mu of polls

	mu       sync.Mutex
	info     *journal.RunInfo // the last answer, if the run was in progress
	read     time.Time
	interval time.Duration
}

func newPolls() *polls { return &polls{runs: map[string]*poll{}} }

// join returns the poll of a run. The caller must call leave.
func (p *polls) join(run string) (joined *poll, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	joined = p.runs[run]
	if joined == nil {
		joined = &poll{}
		p.runs[run] = joined
	}
	joined.followers++
	return joined, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if joined.followers--; joined.followers == 0 {
			delete(p.runs, run)
		}
	}
}

// state returns the state of the run, and the time until a new one is available. It calls query
// only if the last answer is too old, one call at a time. The answer for a run that is not in
// progress is not shared, because the run may be resumed at any time.
func (p *poll) state(
	query func() (*journal.RunInfo, error),
) (info *journal.RunInfo, wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info != nil {
		if wait := p.interval - time.Since(p.read); wait > 0 {
			return p.info, wait, nil
		}
	}
	if info, err = query(); err != nil {
		return nil, 0, err
	}
	last := p.info
	p.info, p.read = nil, time.Now()
	if info.Status != journal.StatusRunning {
		return info, minPollInterval, nil
	}
	if last == nil || last.LastSeq != info.LastSeq {
		p.interval = minPollInterval
	} else {
		p.interval = min(2*p.interval, maxPollInterval)
	}
	p.info = info
	return info, p.interval, nil
}
