package quarantine

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/store"
)

// How runs that ended their process are found.
const (
	heartbeatInterval = time.Second
	pressureInterval  = 100 * time.Millisecond // the heartbeat's while new runs are rejected
	maxAccounts       = 64                     // of a heartbeat, the largest

	// A run wants more than its share if its modules waited for room for what they emit
	// for more than overPart of the time. That is evidence after overTime.
	excessThreshold = 0.5
	ExcessTime      = 3 * time.Second
	// trialTime is how long a suspect runs alone before the next one is resumed.
	TrialTime = 10 * time.Second
)

// A blockage is the part of the last seconds in which a run wanted more than its share.
type excessRate struct {
	at       time.Time
	excess   time.Duration
	fraction float64
	over     time.Time // since when part is above overPart; zero if it isn't
}

// next returns the blockage at a later time. Times in quick succession say nothing.
func (b *excessRate) next(now time.Time, excess time.Duration) *excessRate {
	if b == nil {
		return &excessRate{at: now, excess: excess}
	}
	took := now.Sub(b.at)
	if took < heartbeatInterval/2 {
		return b
	}
	n := &excessRate{at: now, excess: excess, fraction: 0.7*b.fraction + 0.3*float64(excess-b.excess)/float64(took)}
	if n.fraction > excessThreshold {
		if n.over = b.over; n.over.IsZero() {
			n.over = now
		}
	}
	return n
}

// watch sends heartbeats until ctx ends.
func (q *Service) Watch(ctx context.Context) {
	owner := q.Options.Owner
	if owner == "" {
		return
	}
	for {
		state := q.Options.Overload.State()
		if err := q.Options.Store.Heartbeat(ctx, q.process(state), q.accounts(time.Now(), state)); err != nil && ctx.Err() == nil {
			q.Options.Logger.Error("heartbeat failed", "error", err)
		}
		q.EndTrial(ctx, time.Now(), state)
		wait := heartbeatInterval
		if state.Rejecting || q.OnTrial() {
			wait = pressureInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// begin stores the first heartbeat, before runs are resumed here. It says of the processes
// before whether the kernel killed them for want of memory.
func (q *Service) Begin(ctx context.Context) {
	if q.Options.Owner == "" {
		return
	}
	if err := q.Options.Store.StartProcess(ctx, q.process(q.Options.Overload.State())); err != nil {
		q.Options.Logger.Error("first heartbeat failed", "error", err)
	}
}

// process returns what a heartbeat says of the process.
func (q *Service) process(state overload.State) *store.Process {
	_, kills := overload.Cgroup()
	return &store.Process{Owner: q.Options.Owner, Node: q.node, Pressure: int64(1000 * state.Pressure), Used: state.Used, Limit: state.Limit,
		Cgroup: q.cgroup, OOMKills: kills}
}

// end says that the process ends by itself.
func (q *Service) End() {
	if q.Options.Owner == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := q.Options.Store.EndProcess(ctx, q.Options.Owner); err != nil {
		q.Options.Logger.Error("the server's end is not stored", "error", err)
	}
}

// accounts returns what a heartbeat says of the runs: all that want more than their share,
// and if memory may become short, or a suspect runs here, the largest.
func (q *Service) accounts(now time.Time, state overload.State) (out []store.RunAccount) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	seen := make(map[string]*excessRate, len(q.seen))
	for _, a := range q.of.Evictables() {
		b := q.seen[a.Name()].next(now, a.Excess())
		seen[a.Name()] = b
		r := store.RunAccount{Run: a.Name(), Held: a.Used(), Share: a.Limit()}
		if !b.over.IsZero() {
			r.Over = now.Sub(b.over)
		}
		if len(out) < maxAccounts && (state.Pressure > 0.5 || q.Trial != nil || exceedsShare(&r)) {
			out = append(out, r)
		}
	}
	q.seen = seen
	return out
}

// exceeded reports whether a run wanted more than its share.
func exceedsShare(r *store.RunAccount) bool {
	return r.Over >= ExcessTime || r.Share > 0 && r.Held > r.Share
}
