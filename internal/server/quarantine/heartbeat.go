package quarantine

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Parameters of heartbeats and of the evidence that they contain.
const (
	heartbeatInterval = time.Second
	pressureInterval  = 100 * time.Millisecond // heartbeat interval while new runs are rejected or a suspect runs here
	maxAccounts       = 64                     // maximum number of run accounts in a heartbeat

	// A run exceeds its share if it holds more memory than its share, or if the fraction of the time
	// in which its modules wait for memory for events exceeds excessThreshold for ExcessTime or
	// longer.
	excessThreshold = 0.5
	ExcessTime      = 3 * time.Second
	// TrialTime is the time for which a suspect runs alone before the next one is resumed. The
	// trial is shorter if the suspect ends, and longer while memory is short.
	TrialTime = 10 * time.Second
)

// An excessRate is the fraction of recent time in which a run wanted more than its share.
type excessRate struct {
	at       time.Time
	excess   time.Duration
	fraction float64
	over     time.Time // start of the time in which fraction exceeds excessThreshold; zero if it does not
}

// next returns the rate at a later time. excess is the total time for which the run has wanted more
// than its share. If b is nil, this is the first measurement. Intervals below half of
// heartbeatInterval are too short to measure, and change nothing.
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

// Watch stores heartbeats, and ends trials that are over, until ctx is done. It does nothing if the
// server has no owner.
func (q *Service) Watch(ctx context.Context) {
	owner := q.options.Owner
	if owner == "" {
		return
	}
	for {
		state := q.options.Overload.State()
		if err := q.options.Store.Heartbeat(ctx, q.process(state), q.accounts(time.Now(), state)); err != nil &&
			ctx.Err() == nil {
			q.options.Logger.Error("heartbeat failed", "error", err)
		}
		q.EndTrial(ctx, time.Now(), state)
		q.maintain(ctx, time.Now())
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

// Begin stores the first heartbeat, before runs are resumed here. From it, the store derives
// whether the kernel's OOM killer ended earlier processes.
func (q *Service) Begin(ctx context.Context) {
	if q.options.Owner == "" {
		return
	}
	if err := q.options.Store.StartProcess(ctx, q.process(q.options.Overload.State())); err != nil {
		q.options.Logger.Error("first heartbeat failed", "error", err)
	}
	if err := q.begin(ctx); err != nil {
		q.options.Logger.Error("read the crashes of earlier processes", "error", err)
	}
}

// process returns the process's part of a heartbeat.
func (q *Service) process(state overload.State) *store.Process {
	_, kills := overload.Cgroup()
	return &store.Process{
		Owner:    q.options.Owner,
		Node:     q.node,
		Pressure: int64(1000 * state.Pressure),
		Used:     state.Used,
		Limit:    state.Limit,
		Cgroup:   q.cgroup,
		OOMKills: kills,
	}
}

// End records that the process ends cleanly.
func (q *Service) End() {
	if q.options.Owner == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := q.options.Store.EndProcess(ctx, q.options.Owner); err != nil {
		q.options.Logger.Error("record the clean end of the server", "error", err)
	}
}

// accounts returns the runs' part of a heartbeat: the runs that exceed their share and, if memory is
// more than half used or a suspect runs here, the largest runs. It returns at most maxAccounts runs.
func (q *Service) accounts(now time.Time, state overload.State) (out []store.RunAccount) {
	q.mu.Lock()
	defer q.mu.Unlock()
	seen := make(map[string]*excessRate, len(q.seen))
	for _, a := range q.of.Evictables() {
		b := q.seen[a.Name()].next(now, a.Excess())
		seen[a.Name()] = b
		r := store.RunAccount{Run: a.Name(), Held: a.Used(), Share: a.Limit()}
		if !b.over.IsZero() {
			r.Over = now.Sub(b.over)
		}
		if len(out) < maxAccounts && (state.Pressure > 0.5 || q.trial != nil || exceedsShare(&r)) {
			out = append(out, r)
		}
	}
	q.seen = seen
	return out
}

// exceedsShare reports whether a run held more than its share of memory, or has exceeded
// excessThreshold for ExcessTime or longer.
func exceedsShare(r *store.RunAccount) bool {
	return r.Over >= ExcessTime || r.Share > 0 && r.Held > r.Share
}
