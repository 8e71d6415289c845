package runs

import (
	"log/slog"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/hints"
)

// Limits on the interval between two queries for the state of a run that another process executes.
// The interval doubles while the run has no new events. It is longer if hints about the run arrive,
// because queries then only find events whose hints were lost.
const (
	minPollInterval   = 250 * time.Millisecond
	maxPollInterval   = time.Second
	maxHintedInterval = 4 * time.Second
)

// polls shares the queries for the states of runs, and the hints about them, among the followers in
// this process.
type polls struct {
	bus hints.Bus
	log *slog.Logger

	mu   sync.Mutex
	runs map[string]*poll // by run id
}

// A poll queries the store for the state of one run, and receives hints about its events.
type poll struct {
	followers int    // guarded by the mu of polls
	stop      func() // ends the hints

	mu       sync.Mutex
	info     *journal.RunInfo // the last answer, if the run was in progress
	read     time.Time
	interval time.Duration
	hinted   hinted

	waiting sync.Mutex
	changed chan struct{} // closed when followers should look again; guarded by waiting
	timer   *time.Timer   // closes changed at due; nil if it has; guarded by waiting
	due     time.Time     // guarded by waiting
}

func newPolls(bus hints.Bus, log *slog.Logger) *polls {
	return &polls{bus: bus, log: log, runs: map[string]*poll{}}
}

// join returns the poll of a run, and starts it if the run has none. The caller must call leave
// once; when the last follower leaves, the poll ends.
func (p *polls) join(run string) (joined *poll, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	joined = p.runs[run]
	if joined == nil {
		joined = &poll{changed: make(chan struct{})}
		joined.stop = p.ask(run, topicFollow, topicEvents, joined.hint)
		p.runs[run] = joined
	}
	joined.followers++
	return joined, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if joined.followers--; joined.followers == 0 {
			delete(p.runs, run)
			joined.stop()
		}
	}
}

// ask makes the server that executes a run send hints about the run, until stop is called. It
// publishes the run's id on the topic question regularly. It calls receive with each hint on the
// topic that consists of answers and the run's id.
func (p *polls) ask(run, question, answers string, receive func(hint []byte)) (stop func()) {
	if _, alone := p.bus.(hints.None); alone {
		return func() {}
	}
	cancel, err := p.bus.Subscribe(answers+run, receive)
	if err != nil {
		p.log.Error("subscribe to hints about a run", "run", run, "error", err)
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(followInterval)
		defer ticker.Stop()
		for {
			_ = p.bus.Publish(question, []byte(run)) // the id is valid: Subscribe accepted it
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	}()
	return func() {
		cancel()
		close(done)
	}
}

// hint records a hint about an event, and wakes the followers.
func (p *poll) hint(text []byte) {
	p.mu.Lock()
	added := p.hinted.add(text)
	p.mu.Unlock()
	if added {
		p.wake()
	}
}

// wake makes the followers check for events.
func (p *poll) wake() {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	p.notify()
}

// notify closes changed. The caller holds waiting.
func (p *poll) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait returns a channel that is closed at the next hint, or when limit has passed. All followers share
// one timer, which fires at the earliest of their times. If each follower had its own timer, every timer
// would wake all followers.
func (p *poll) wait(limit time.Duration) <-chan struct{} {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	switch due := time.Now().Add(limit); {
	case p.timer == nil:
		p.due, p.timer = due, time.AfterFunc(limit, p.timeout)
	case due.Before(p.due):
		p.due = due
		p.timer.Reset(limit)
	}
	return p.changed
}

// timeout wakes the followers when the timer fires, so that they query the run again.
func (p *poll) timeout() {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	p.timer = nil
	p.notify()
}

// since returns the events with numbers greater than after that arrived with hints, and the number of
// the newest event that a hint named.
func (p *poll) since(after int64) (lines []Event, last int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hinted.since(after), p.hinted.last
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
	switch {
	case last == nil || last.LastSeq != info.LastSeq && p.hinted.last < info.LastSeq:
		p.interval = minPollInterval
	case p.hinted.last > 0:
		p.interval = min(2*p.interval, maxHintedInterval)
	default:
		p.interval = min(2*p.interval, maxPollInterval)
	}
	p.info = info
	return info, p.interval, nil
}
