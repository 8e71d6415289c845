package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A RunCrash describes a process that ended uncleanly while it executed a run, for a reason other than
// memory. See [Crashes.RunCrashes].
type RunCrash struct {
	Owner    string
	Node     string        // the name of the process's machine
	Silent   time.Duration // time since the last heartbeat of the process
	Lived    time.Duration // time for which the process executed the run; 0 if unknown
	Alone    bool          // whether the process executed nothing but the run; see [Quarantine.Suspect]
	Reported bool          // whether the process wrote a crash report; see [Crashes.ReportCrash]
	Named    bool          // whether the crash report of the process names the run
	Back     bool          // whether another process of its machine is alive

	recorded bool // whether the end was recorded by RunCrashes or ReportCrash
}

// MaxLived is the maximum of the time between the start of a run in a process and the end of this
// process for which the run counts as a possible cause of the end, if an earlier process of the run
// also ended uncleanly.
const MaxLived = 30 * time.Second

// unrelatedTime is the time for which the end of a process counts for [Crashes.UnrelatedCrash].
const unrelatedTime = 10 * time.Minute

// Crashes counts, for each run, the processes that ended uncleanly while they executed it. A process
// that sends another heartbeat, or ends cleanly, does not count any more.
type Crashes interface {
	// RunCrashes records that a process without heartbeats executed a run, and returns all processes
	// that ended uncleanly while they executed the run or began to resume it, the latest last. If the
	// process executed the run for longer than [MaxLived], RunCrashes forgets the earlier processes.
	RunCrashes(ctx context.Context, run, owner string) ([]RunCrash, error)
	// Resuming records that a process begins to resume a run whose earlier process ended uncleanly. If
	// the process ends within [MaxLived], it counts even if it has not claimed the run.
	Resuming(ctx context.Context, run, owner string) error
	// NotResumed revokes Resuming and [Quarantine.Suspect], because the process did not claim the run.
	NotResumed(ctx context.Context, run, owner string) error
	// ReportCrash records that a process has written a crash report, without a signal from another
	// process. The report names a run, or none if run is empty. ReportCrash ignores a run and a process
	// that the store does not have.
	ReportCrash(ctx context.Context, run, owner string) error
	// UnrelatedCrash reports whether another process has ended uncleanly in the last ten minutes, although
	// it executed neither the run nor another suspect alone.
	UnrelatedCrash(ctx context.Context, run string) (bool, error)
	// SuspectOwners returns at most 100 processes that execute a run that may have ended another
	// process, if one of both processes is on the machine node. Only Owner and Silent are set.
	SuspectOwners(ctx context.Context, node string) ([]RunCrash, error)
	// ReleaseUnfounded releases the quarantined runs whose [Evidence] names a process that has sent
	// another heartbeat since. It returns the runs.
	ReleaseUnfounded(ctx context.Context) (runs []string, err error)
}

// crashed is the SQL condition that the process p has sent no heartbeat since its end was recorded in
// the row c of run_crashes or, if it was not, since MaxLived after the process began to resume the run.
var crashed = fmt.Sprintf(`(c.crashed_ms >= p.seen_ms OR c.crashed_ms = 0 AND p.seen_ms <= c.resumed_ms + %d)`,
	MaxLived.Milliseconds())

// crashedAt is the SQL expression for the time of the row c of run_crashes.
const crashedAt = `CASE WHEN c.crashed_ms = 0 THEN c.resumed_ms ELSE c.crashed_ms END`

// RunCrashes implements [Crashes].
func (s *store) RunCrashes(ctx context.Context, run, owner string) (list []RunCrash, err error) {
	known := false
	if err := s.db.View(ctx, func(t database.Tx) (err error) {
		list, err = readCrashes(t, run)
		for i := range list {
			known = known || list[i].Owner == owner && list[i].recorded
		}
		return err
	}); err != nil || known {
		return list, err
	}
	err = s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) (err error) {
		if _, err := t.Exec(`INSERT INTO run_crashes (run, owner, crashed_ms, resumed_ms, named)
			SELECT $1, owner, NOW_MS, 0, 0 FROM processes WHERE owner = $2 AND seen_ms < NOW_MS - $3
			ON CONFLICT (run, owner) DO UPDATE SET crashed_ms = NOW_MS`,
			run, owner, HeartbeatTimeout.Milliseconds()); err != nil {
			return err
		}
		if list, err = readCrashes(t, run); err != nil {
			return err
		}
		for i := range list {
			if list[i].Owner == owner && list[i].Lived > MaxLived {
				list = []RunCrash{list[i]}
				_, err = t.Exec(`DELETE FROM run_crashes WHERE run = $1 AND owner <> $2`, run, owner)
				break
			}
		}
		return err
	})
	return list, err
}

func readCrashes(t database.Tx, run string) (list []RunCrash, err error) {
	err = t.Query(func(scan func(...any) error) error {
		var c RunCrash
		var silent, lived, recorded, reported, named, alone, back int64
		err := scan(&c.Owner, &c.Node, &silent, &lived, &recorded, &reported, &named, &alone, &back)
		c.Silent, c.Lived = time.Duration(silent)*time.Millisecond, time.Duration(max(lived, 0))*time.Millisecond
		c.recorded, c.Reported, c.Named, c.Alone, c.Back = recorded != 0, reported != 0, named != 0, alone != 0, back != 0
		list = append(list, c)
		return err
	}, `SELECT c.owner, p.node, NOW_MS - p.seen_ms, CASE WHEN c.resumed_ms = 0 THEN 0 ELSE p.seen_ms - c.resumed_ms END,
			c.crashed_ms, p.reported, c.named,
			c.alone + (SELECT count(*) FROM suspects AS s WHERE s.run = c.run AND s.owner = c.owner AND s.alone = 1),
			(SELECT count(*) FROM processes AS b WHERE b.node = p.node AND b.seen_ms >= NOW_MS - $2)
		FROM run_crashes AS c JOIN processes AS p ON p.owner = c.owner
		WHERE c.run = $1 AND p.seen_ms < NOW_MS - $2 AND `+crashed+`
		ORDER BY `+crashedAt+`, c.owner`,
		run, HeartbeatTimeout.Milliseconds())
	return list, err
}

// Resuming implements [Crashes].
func (s *store) Resuming(ctx context.Context, run, owner string) error {
	return s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error { return resuming(t, run, owner) })
}

func resuming(t database.Tx, run, owner string) error {
	_, err := t.Exec(`INSERT INTO run_crashes (run, owner, crashed_ms, resumed_ms, named) VALUES ($1, $2, 0, NOW_MS, 0)
		ON CONFLICT (run, owner) DO UPDATE SET crashed_ms = 0, resumed_ms = NOW_MS`, run, owner)
	return err
}

// NotResumed implements [Crashes].
func (s *store) NotResumed(ctx context.Context, run, owner string) error {
	return s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
		if _, err := t.Exec(`DELETE FROM suspects WHERE run = $1 AND owner = $2`, run, owner); err != nil {
			return err
		}
		_, err := t.Exec(`DELETE FROM run_crashes WHERE run = $1 AND owner = $2`, run, owner)
		return err
	})
}

// ReportCrash implements [Crashes].
func (s *store) ReportCrash(ctx context.Context, run, owner string) error {
	return s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		if _, err := t.Exec(`UPDATE processes SET reported = 1 WHERE owner = $1`, owner); err != nil {
			return err
		}
		_, err := t.Exec(`INSERT INTO run_crashes (run, owner, crashed_ms, resumed_ms, named)
			SELECT runs.id, p.owner, NOW_MS, 0, 1 FROM runs, processes AS p WHERE runs.id = $1 AND p.owner = $2
			ON CONFLICT (run, owner) DO UPDATE SET crashed_ms = NOW_MS, named = 1`, run, owner)
		return err
	})
}

// UnrelatedCrash implements [Crashes].
func (s *store) UnrelatedCrash(ctx context.Context, run string) (found bool, err error) {
	var n int64
	err = s.db.View(ctx, func(t database.Tx) error {
		_, err := database.One(t, `SELECT count(*) FROM processes AS p
			WHERE p.seen_ms < NOW_MS - $2 AND p.seen_ms > NOW_MS - $3
			AND NOT EXISTS (SELECT 1 FROM run_crashes AS c WHERE c.owner = p.owner AND (c.run = $1 OR c.alone = 1))`,
			[]any{run, HeartbeatTimeout.Milliseconds(), unrelatedTime.Milliseconds()}, &n)
		return err
	})
	return n > 0, err
}

// SuspectOwners implements [Crashes].
func (s *store) SuspectOwners(ctx context.Context, node string) (list []RunCrash, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		return t.Query(func(scan func(...any) error) error {
			var c RunCrash
			var silent int64
			err := scan(&c.Owner, &silent)
			c.Silent = time.Duration(silent) * time.Millisecond
			list = append(list, c)
			return err
		}, `SELECT DISTINCT now.owner, NOW_MS - now.seen_ms FROM run_crashes AS c
			JOIN processes AS p ON p.owner = c.owner AND `+crashed+`
			JOIN runs ON runs.id = c.run AND runs.status = 'running'
			JOIN processes AS now ON now.owner = runs.owner
			WHERE (now.owner <> c.owner AND now.seen_ms - `+crashedAt+` <= $2 OR c.named = 1 OR c.alone = 1) AND (now.node = $1 OR p.node = $1)
			LIMIT 100`, node, MaxLived.Milliseconds())
	})
	return list, err
}

// ReleaseUnfounded implements [Crashes].
func (s *store) ReleaseUnfounded(ctx context.Context) (runs []string, err error) {
	const unfounded = `SELECT q.run FROM quarantine AS q JOIN processes AS p ON p.owner = q.owner WHERE p.seen_ms > q.created_ms`
	if err := s.db.View(ctx, func(t database.Tx) (err error) {
		runs, err = database.Strings(t, unfounded)
		return err
	}); err != nil || len(runs) == 0 {
		return nil, err
	}
	err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) (err error) {
		if runs, err = database.Strings(t, unfounded); err != nil {
			return err
		}
		for _, id := range runs {
			if err := release(t, id); err != nil && !errors.Is(err, journal.ErrNoRun) {
				return err
			}
		}
		return nil
	})
	return runs, err
}
