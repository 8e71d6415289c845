package quarantine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Times of the trials of runs whose processes ended for a reason other than memory.
const (
	// certainTime is the time without a heartbeat after which a process counts as ended for a
	// quarantine. Before that, it may be stopped or cut off from the database.
	certainTime = store.MaxLived
	// returnTime is the time for which other machines leave a suspect to the machines that it stopped. It
	// is longer by maxIsolation if one of these has returned, and otherwise by certainTime after a trial.
	returnTime = 15 * time.Second
	// A trial takes twice as long as the run executed in one of the processes that ended, plus minTrial,
	// but at most store.MaxLived.
	minTrial = 2 * time.Second
)

// A trial that ends without a crash report is half the evidence, because an operator, the kernel or a
// power failure may have ended the process.
const (
	// maxSilent is the number of such trials after which a run is quarantined.
	maxSilent = 2
	// maxSilentUnrelated is maxSilent if a server that did not execute the run has also ended.
	maxSilentUnrelated = 4
)

// A verdict is what happens to a run whose process ended for a reason other than memory.
type verdict int

const (
	resume  verdict = iota
	wait            // its last process may still be alive
	try             // it is resumed alone
	convict         // it is quarantined
)

// verdictOf returns the verdict on a run with these crashes, the latest last. gone reports whether a
// process is known to have ended. unrelated reports whether another server also ended; see
// [store.Crashes.UnrelatedCrash].
func verdictOf(crashes []store.RunCrash, gone func(owner string) bool, unrelated bool) verdict {
	named, silent := 0, 0
	crashed, pending := false, false
	for i := range crashes {
		c := &crashes[i]
		if c.Named {
			named++
		}
		switch {
		case !c.Alone:
		case c.Reported || c.Named:
			crashed = true
		case c.Silent >= certainTime || gone(c.Owner):
			silent++
		default:
			pending = true
		}
	}
	enough := maxSilent
	if unrelated {
		enough = maxSilentUnrelated
	}
	switch {
	case crashed, named >= 2, silent >= enough:
		return convict
	case pending:
		return wait
	case silent > 0, named > 0, len(crashes) >= 2:
		return try
	}
	return resume
}

// judgeCrash is [Service.Judge] for a run whose process ended for a reason other than memory.
func (q *Service) judgeCrash(ctx context.Context, info *journal.RunInfo, d *store.Crash) (bool, error) {
	crashes, err := q.options.Store.RunCrashes(ctx, info.ID, info.Owner)
	if err != nil {
		return false, err
	}
	unrelated := false
	if slices.ContainsFunc(crashes, func(c store.RunCrash) bool { return c.Alone }) {
		if unrelated, err = q.options.Store.UnrelatedCrash(ctx, info.ID); err != nil {
			return false, err
		}
	}
	switch verdictOf(crashes, q.gone, unrelated) {
	case wait:
		return false, nil
	case try:
		return q.startAlone(ctx, info, crashes)
	case convict:
		reason, owner := evidenceIn(crashes)
		q.options.Logger.Warn("run quarantined", "tenant", info.Tenant, "run", info.ID, "reason", reason)
		return false, q.options.Store.Quarantine(ctx, info, &store.Evidence{
			Node: d.Node, Reason: reason, Held: d.Account.Held, Share: d.Account.Share, Used: d.Used, Limit: d.Limit,
			Owner: owner,
		})
	default:
		if len(crashes) == 0 || q.isolated() {
			return !q.isolated(), nil
		}
		return true, q.options.Store.Resuming(ctx, info.ID, q.options.Owner)
	}
}

// evidenceIn returns the reason why a run with these crashes is quarantined, and the process whose end
// is the evidence.
func evidenceIn(crashes []store.RunCrash) (reason, owner string) {
	reason = fmt.Sprintf("%d servers ended while they executed the run", len(crashes))
	trials, crashed := 0, false
	for i := range crashes {
		c := &crashes[i]
		if c.Alone && !crashed {
			owner, crashed = c.Owner, c.Reported || c.Named
			trials++
		}
	}
	switch {
	case crashed:
		return reason + ", one of them crashed while it executed nothing else", owner
	case trials > 0:
		return fmt.Sprintf("%s, %d of them while they executed nothing else", reason, trials), owner
	}
	named := slices.IndexFunc(crashes, func(c store.RunCrash) bool { return c.Named })
	return reason + ", and the crash reports of two name it", crashes[named].Owner
}

// gone reports whether a process is known to have ended.
func (q *Service) gone(owner string) bool { return q.options.Gone != nil && q.options.Gone(owner) }

// startAlone resumes a suspect alone, and reports whether it may be resumed now. First, the machines
// that the run stopped have time to return. Then this process stops accepting work. If its other runs
// do not end within maxIsolation, the suspect is resumed all the same, and the end of this process is not
// enough for a quarantine.
func (q *Service) startAlone(ctx context.Context, info *journal.RunInfo, crashes []store.RunCrash) (bool, error) {
	now := time.Now()
	last := &crashes[len(crashes)-1]
	stopped := slices.ContainsFunc(crashes, func(c store.RunCrash) bool { return c.Node == q.node })
	away := returnTime
	switch {
	case slices.ContainsFunc(crashes, func(c store.RunCrash) bool { return c.Back }):
		away += maxIsolation
	case last.Alone:
		away += certainTime
	}
	if !stopped && last.Silent < away {
		return false, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alone.wanted = now
	if q.trial != nil && q.trial.ID != info.ID { // if it is the same run, its last resumption has failed
		return false, nil
	}
	q.isolate(now)
	idle := q.alone.is && now.After(q.alone.settled) && q.options.Count() == 0
	if q.alone.is && !idle {
		return false, nil
	}
	if err := q.options.Store.Resuming(ctx, info.ID, q.options.Owner); err != nil {
		return false, err
	}
	if err := q.options.Store.Suspect(ctx, info.ID, q.options.Owner, idle); err != nil {
		return false, err
	}
	q.trial, q.began = info, now
	longest := slices.MaxFunc(crashes, func(a, b store.RunCrash) int { return cmp.Compare(a.Lived, b.Lived) })
	q.limit = min(2*longest.Lived+minTrial, store.MaxLived)
	q.options.Logger.Info("run resumed alone: servers ended while they executed it",
		"tenant", info.Tenant, "run", info.ID, "servers", len(crashes), "nothing else in progress", idle)
	return true, nil
}
