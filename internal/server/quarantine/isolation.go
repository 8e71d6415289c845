package quarantine

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/internal/store"
)

const (
	// settleTime is the time for which a process waits for runs whose start it has already allowed.
	settleTime = 2 * time.Second
	// startTime is the time for which a process waits until a suspect that it resumes is in progress.
	startTime = 10 * time.Second
	// wantedTime is the time after which a process without suspects accepts work again. It is longer
	// than the time between two searches for runs to resume.
	wantedTime = 5 * time.Second
	// maxIsolation limits the time for which a process executes only suspects, in each isolationInterval.
	// Meanwhile, a suspect waits until the other runs of the process have ended. Later suspects are resumed
	// one at a time beside other runs.
	maxIsolation      = time.Minute
	isolationInterval = 10 * time.Minute
	// releaseInterval is the time between two searches for evidence that has become void.
	releaseInterval = 10 * time.Second
)

// An isolation is a time in which a process accepts no work, and resumes only suspects, one at a
// time.
type isolation struct {
	is      bool
	over    bool      // maxIsolation is used up
	began   time.Time // of the first isolation in the isolationInterval
	settled time.Time // no other run begins after this time
	wanted  time.Time // when a suspect was last seen
}

// isolate begins an isolation, unless there is one or maxIsolation is used up. The caller holds q.mu.
func (q *Service) isolate(now time.Time) {
	a := &q.alone
	if a.began.IsZero() || now.Sub(a.began) > isolationInterval {
		a.began, a.over = now, false
	}
	a.over = a.over || now.Sub(a.began) > maxIsolation
	if a.is || a.over {
		return
	}
	a.is, a.settled, a.wanted = true, now.Add(settleTime), now
	q.options.Overload.Isolate(true)
	q.options.Logger.Warn("no new runs are accepted: a run that may have ended several servers is resumed alone")
}

// endIsolation ends the isolation if no suspect has been seen for wantedTime, or maxIsolation is used
// up. The caller holds q.mu.
func (q *Service) endIsolation(now time.Time) {
	a := &q.alone
	if !a.is || now.Sub(a.wanted) < wantedTime && now.Sub(a.began) < maxIsolation {
		return
	}
	a.is = false
	q.options.Overload.Isolate(false)
	q.options.Waiting()
	q.options.Logger.Info("new runs are accepted again")
}

// isolated reports whether only suspects are resumed here.
func (q *Service) isolated() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.alone.is
}

// begin stores the crash reports of earlier processes, and begins an isolation before the first
// request if a run that may have stopped this machine waits for a trial.
func (q *Service) begin(ctx context.Context) error {
	for owner, run := range q.options.Reports {
		if err := q.options.Store.ReportCrash(ctx, run, owner); err != nil {
			return err
		}
	}
	suspects, err := q.options.Store.SuspectOwners(ctx, q.node)
	if err != nil {
		return err
	}
	for _, s := range suspects {
		if s.Silent < store.HeartbeatTimeout && !q.gone(s.Owner) {
			continue
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		now := time.Now()
		q.isolate(now)
		q.alone.settled = now
		return nil
	}
	return nil
}

// maintain makes the runs of ended processes available to an isolated process without other servers,
// whose leases would otherwise expire later, and releases runs whose evidence has become void.
func (q *Service) maintain(ctx context.Context, now time.Time) {
	if q.options.Single && q.isolated() {
		if _, err := q.options.Store.EndSilent(ctx, nil); err != nil && ctx.Err() == nil {
			q.options.Logger.Error("look for servers that have ended", "error", err)
		}
	}
	if now.Sub(q.released) < releaseInterval {
		return
	}
	q.released = now
	released, err := q.options.Store.ReleaseUnfounded(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		q.options.Logger.Error("release runs whose server is alive", "error", err)
	case len(released) > 0:
		q.options.Logger.Warn("quarantined runs released: the server whose end was the evidence is alive", "runs", released)
		q.options.Waiting()
	}
}
