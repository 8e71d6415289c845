package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A Process describes a process that executes runs, as of its last heartbeat.
type Process struct {
	Owner    string // the process's name in the runs that it executes
	Node     string // the name of the process's machine
	Pressure int64  // memory used, in thousandths of the limit
	Used     int64  // bytes of memory in use
	Limit    int64  // bytes of memory that the process may use
	Cgroup   string // control group on Node that limits the memory of the process; empty if unknown
	OOMKills int64  // processes of Cgroup that the kernel's OOM killer has killed
}

// A RunAccount describes the memory of a run in its process.
type RunAccount struct {
	Run   string
	Held  int64         // bytes that the run holds
	Share int64         // bytes that the run may hold
	Over  time.Duration // time for which the run requested more than its share
}

// A Crash describes the unclean exit of a process that executed a run.
type Crash struct {
	Process
	Account RunAccount // the run's account; zero if the last heartbeat did not report it
	Largest bool       // whether the last heartbeat reported the run, and no run that held more
	Alone   bool       // whether the process had resumed the run as its only suspect; see [Quarantine.Suspect]
	Killed  bool       // whether the OOM killer killed a process of the cgroup after the last heartbeat
	// Isolated reports whether the process had resumed the run and executed nothing else at all.
	Isolated bool
}

// A Quarantine holds evidence about crashed processes, and the runs that must not be resumed because
// of this evidence.
type Quarantine interface {
	Crashes
	// StartProcess stores a process's first heartbeat. If the OOM killer has killed more
	// processes of its cgroup than at the last heartbeat of an earlier process, StartProcess
	// records that the earlier process was killed.
	StartProcess(ctx context.Context, p *Process) error
	// Heartbeat stores the state of a process and the memory usage of its runs. They replace the
	// state and the usage of the process's previous heartbeat.
	Heartbeat(ctx context.Context, p *Process, runs []RunAccount) error
	// EndProcess records that a process exited cleanly.
	EndProcess(ctx context.Context, owner string) error
	// EndSilent lets the leases of the processes expire that have sent no heartbeat for
	// [HeartbeatTimeout]. It omits the processes in heard, whose heartbeats arrived as hints and not
	// through the database. It returns the processes whose runs have become claimable by this call.
	EndSilent(ctx context.Context, heard []string) (owners []string, err error)
	// CrashOf returns the crash of the process that executed a run. It returns nil if the
	// process exited cleanly, is unknown, or sent a heartbeat within [HeartbeatTimeout].
	CrashOf(ctx context.Context, owner, run string) (*Crash, error)
	// Suspect records that the process named owner resumes a run as its only suspect. A suspect is
	// a run that was in progress in a process that exited uncleanly, so that the run may have caused
	// the exit. A process resumes one suspect at a time: if it exits uncleanly too, that run is the
	// likely cause. alone reports whether the process executes nothing else at all.
	Suspect(ctx context.Context, run, owner string, alone bool) error
	// Clear removes a run from the suspects, for example because it has ended, and forgets its
	// [Crashes].
	Clear(ctx context.Context, run string) error
	// Quarantine prevents a run from being resumed. It has no effect if the run is in progress, has
	// ended or paused, or was claimed since info was read.
	Quarantine(ctx context.Context, info *journal.RunInfo, e *Evidence) error
	// Release allows a quarantined run to be resumed, and forgets its [Crashes]. It fails with
	// [journal.ErrNoRun] if the run does not exist or is not quarantined.
	Release(ctx context.Context, run string) error
	// Quarantined returns a page of the quarantined runs ordered by id, and the position of its
	// last run if more follow.
	Quarantined(ctx context.Context, p Page) ([]Evidence, *Position, error)
	// EvidenceOf returns the evidence against a quarantined run, or nil if the run is not
	// quarantined.
	EvidenceOf(ctx context.Context, run string) (*Evidence, error)
}

// HeartbeatTimeout is the time after its last heartbeat at which a process counts as ended.
// Processes store a heartbeat each second.
const HeartbeatTimeout = 1500 * time.Millisecond

// crashTTL is the time after which the rows of a crashed process are deleted.
const crashTTL = 7 * 24 * time.Hour

// StartProcess implements [Quarantine]. If it marks a live process as killed, that process's
// next heartbeat clears the mark.
func (s *store) StartProcess(ctx context.Context, p *Process) error {
	return s.db.Update(ctx, database.TxOptions{Priority: true, Lazy: true}, func(t database.Tx) error {
		if p.Cgroup != "" {
			if _, err := t.Exec(`UPDATE processes SET oom_killed = 1, oom_kills = $4 WHERE node = $1 AND cgroup = $2 AND owner <> $3 AND oom_kills < $4`,
				p.Node, p.Cgroup, p.Owner, p.OOMKills); err != nil {
				return err
			}
		}
		if _, err := t.Exec(`DELETE FROM run_crashes WHERE crashed_ms < NOW_MS - $1 AND resumed_ms < NOW_MS - $1`, crashTTL.Milliseconds()); err != nil {
			return err
		}
		return putHeartbeat(t, p)
	})
}

func putHeartbeat(t database.Tx, p *Process) error {
	_, err := t.Exec(
		`INSERT INTO processes (owner, node, seen_ms, pressure, used_bytes, limit_bytes, cgroup, oom_kills)
		VALUES ($1, $2, NOW_MS, $3, $4, $5, $6, $7)
		ON CONFLICT (owner) DO UPDATE SET
			seen_ms = NOW_MS, pressure = $3, used_bytes = $4, limit_bytes = $5, oom_kills = $7, oom_killed = 0`,
		p.Owner,
		p.Node,
		p.Pressure,
		p.Used,
		p.Limit,
		p.Cgroup,
		p.OOMKills,
	)
	return err
}

// Heartbeat implements [Quarantine].
func (s *store) Heartbeat(ctx context.Context, p *Process, runs []RunAccount) error {
	return s.db.Update(ctx, database.TxOptions{Priority: true, Lazy: true}, func(t database.Tx) error {
		if err := putHeartbeat(t, p); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM run_accounts WHERE owner = $1`, p.Owner); err != nil {
			return err
		}
		for _, r := range runs {
			if _, err := t.Exec(`INSERT INTO run_accounts (owner, run, held_bytes, share_bytes, over_ms) VALUES ($1, $2, $3, $4, $5)`,
				p.Owner, r.Run, r.Held, r.Share, r.Over.Milliseconds()); err != nil {
				return err
			}
		}
		return nil
	})
}

// EndProcess implements [Quarantine].
func (s *store) EndProcess(ctx context.Context, owner string) error {
	return s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		if _, err := t.Exec(`DELETE FROM run_accounts WHERE owner = $1 OR owner IN (SELECT owner FROM processes WHERE seen_ms < NOW_MS - $2)`,
			owner, crashTTL.Milliseconds()); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM suspects WHERE owner = $1`, owner); err != nil {
			return err
		}
		_, err := t.Exec(`DELETE FROM processes WHERE owner = $1 OR seen_ms < NOW_MS - $2`, owner, crashTTL.Milliseconds())
		return err
	})
}

// EndSilent implements [Quarantine].
func (s *store) EndSilent(ctx context.Context, heard []string) (owners []string, err error) {
	var silent []string
	if err := s.db.View(ctx, func(t database.Tx) error {
		silent, err = database.Strings(t, `SELECT owner FROM processes
			WHERE seen_ms < NOW_MS - $1 AND owner IN (SELECT owner FROM runs WHERE status = 'running' AND lease_ms > NOW_MS)`,
			HeartbeatTimeout.Milliseconds())
		return err
	}); err != nil {
		return nil, err
	}
	for _, owner := range silent {
		if slices.Contains(heard, owner) {
			continue
		}
		ended := false
		if err := s.db.Update(ctx, database.TxOptions{Priority: true}, func(t database.Tx) error {
			n, err := t.Exec(`UPDATE runs SET lease_ms = NOW_MS WHERE owner = $1 AND status = 'running' AND lease_ms > NOW_MS
				AND EXISTS (SELECT 1 FROM processes WHERE owner = $1 AND seen_ms < NOW_MS - $2)`,
				owner, HeartbeatTimeout.Milliseconds())
			ended = n > 0
			return err
		}); err != nil {
			return nil, err
		}
		if ended {
			owners = append(owners, owner)
		}
	}
	return owners, nil
}

// CrashOf implements [Quarantine].
func (s *store) CrashOf(ctx context.Context, owner, run string) (crash *Crash, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		d := Crash{Process: Process{Owner: owner}, Account: RunAccount{Run: run}}
		var killed int64
		found, err := database.One(
			t,
			`SELECT node, pressure, used_bytes, limit_bytes, cgroup, oom_kills, oom_killed FROM processes
			WHERE owner = $1 AND seen_ms < NOW_MS - $2`,
			[]any{owner, HeartbeatTimeout.Milliseconds()},
			&d.Node,
			&d.Pressure,
			&d.Used,
			&d.Limit,
			&d.Cgroup,
			&d.OOMKills,
			&killed,
		)
		if err != nil || !found {
			return err
		}
		var over, others, trials, isolated int64
		measured, err := database.One(
			t,
			`SELECT held_bytes, share_bytes, over_ms FROM run_accounts WHERE owner = $1 AND run = $2`,
			[]any{owner, run},
			&d.Account.Held,
			&d.Account.Share,
			&over,
		)
		if err != nil {
			return err
		}
		if _, err := database.One(t, `SELECT count(*) FROM run_accounts WHERE owner = $1 AND run <> $2 AND held_bytes > $3`, []any{owner, run, d.Account.Held}, &others); err != nil {
			return err
		}
		if _, err := database.One(t, `SELECT count(*), COALESCE(max(alone), 0) FROM suspects WHERE owner = $1 AND run = $2`, []any{owner, run}, &trials, &isolated); err != nil {
			return err
		}
		d.Account.Over, d.Largest, d.Alone, d.Killed = time.Duration(over)*time.Millisecond, measured &&
			others == 0, trials > 0, killed > 0
		d.Isolated = isolated > 0
		crash = &d
		return nil
	})
	return crash, err
}

// Suspect implements [Quarantine].
func (s *store) Suspect(ctx context.Context, run, owner string, alone bool) error {
	value := int64(0)
	if alone {
		value = 1
	}
	return s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		if _, err := t.Exec(`UPDATE run_crashes SET alone = $3 WHERE run = $1 AND owner = $2`, run, owner, value); err != nil {
			return err
		}
		_, err := t.Exec(`INSERT INTO suspects (run, owner, alone) VALUES ($1, $2, $3)
			ON CONFLICT (run) DO UPDATE SET owner = $2, alone = $3`, run, owner, value)
		return err
	})
}

// Clear implements [Quarantine].
func (s *store) Clear(ctx context.Context, run string) error {
	return s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
		return forgetSuspect(t, run)
	})
}

// forgetSuspect deletes a run's suspicion and crashes.
func forgetSuspect(t database.Tx, run string) error {
	if _, err := t.Exec(`DELETE FROM suspects WHERE run = $1`, run); err != nil {
		return err
	}
	_, err := t.Exec(`DELETE FROM run_crashes WHERE run = $1`, run)
	return err
}

// Quarantine implements [Quarantine].
func (s *store) Quarantine(ctx context.Context, info *journal.RunInfo, e *Evidence) error {
	return s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		n, err := t.Exec(`UPDATE runs SET epoch = epoch + 1, status = $3, owner = '', lease_ms = 0, updated_ms = NOW_MS
			WHERE id = $1 AND epoch = $2 AND status = 'running' AND lease_ms <= NOW_MS`, info.ID, info.Epoch, string(journal.StatusQuarantined))
		if err != nil || n == 0 {
			return err
		}
		memory := int64(0)
		if e.Memory {
			memory = 1
		}
		if _, err := t.Exec(`DELETE FROM quarantine WHERE run = $1`, info.ID); err != nil {
			return err
		}
		if _, err := t.Exec(`INSERT INTO quarantine (run, tenant, node, created_ms, reason, held_bytes, share_bytes, used_bytes, limit_bytes, memory, owner)
			VALUES ($1, $2, $3, NOW_MS, $4, $5, $6, $7, $8, $9, $10)`,
			info.ID, info.Tenant, e.Node, e.Reason, e.Held, e.Share, e.Used, e.Limit, memory, e.Owner); err != nil {
			return err
		}
		_, err = t.Exec(`DELETE FROM suspects WHERE run = $1`, info.ID)
		return err
	})
}

// Release implements [Quarantine].
func (s *store) Release(ctx context.Context, id string) error {
	return s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		if err := release(t, id); err != nil {
			return err
		}
		return recordOperator(t, ActorOf(ctx), "run.release", id, nil)
	})
}

// release allows a quarantined run to be resumed. It fails with [journal.ErrNoRun] if there is none.
func release(t database.Tx, id string) error {
	n, err := t.Exec(
		`UPDATE runs SET status = 'running', owner = '', lease_ms = 0, updated_ms = NOW_MS WHERE id = $1 AND status = $2`,
		id,
		string(journal.StatusQuarantined),
	)
	if err == nil && n == 0 {
		if _, err = run(t, id); err == nil {
			err = database.ForCaller(fmt.Errorf("run %s is not quarantined: %w", id, journal.ErrNoRun))
		}
	}
	if err != nil {
		return err
	}
	if _, err = t.Exec(`DELETE FROM quarantine WHERE run = $1`, id); err != nil {
		return err
	}
	return forgetSuspect(t, id)
}

const evidenceColumns = `q.run, q.tenant, q.node, q.created_ms, q.reason, q.held_bytes, q.share_bytes, q.used_bytes, q.limit_bytes, q.memory`

func scanEvidence(scan func(...any) error) (e Evidence, err error) {
	var created, memory int64
	err = scan(&e.Run, &e.Tenant, &e.Node, &created, &e.Reason, &e.Held, &e.Share, &e.Used, &e.Limit, &memory)
	e.Created, e.Memory = time.UnixMilli(created), memory != 0
	return e, err
}

// Quarantined implements [Quarantine].
func (s *store) Quarantined(ctx context.Context, p Page) (runs []Evidence, next *Position, err error) {
	err = s.db.View(ctx, func(t database.Tx) (err error) {
		runs, next, err = list(t, p, scanEvidence, func(e *Evidence) Position { return Position{Name: e.Run} },
			`SELECT `+evidenceColumns+` FROM quarantine AS q JOIN runs ON runs.id = q.run AND runs.status = 'quarantined'
			WHERE q.run > $1 ORDER BY q.run LIMIT $2`, p.name())
		return err
	})
	return runs, next, err
}

// EvidenceOf implements [Quarantine].
func (s *store) EvidenceOf(ctx context.Context, run string) (found *Evidence, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		return t.Query(func(scan func(...any) error) error {
			e, err := scanEvidence(scan)
			found = &e
			return err
		}, `SELECT `+evidenceColumns+` FROM quarantine AS q WHERE q.run = $1`, run)
	})
	return found, err
}

// Evidence describes why a run is quarantined.
type Evidence struct {
	Run     string
	Tenant  string
	Node    string // the machine of the run's process
	Created time.Time
	Reason  string
	Held    int64 // bytes that the run held
	Share   int64 // bytes that the run was allowed to hold
	Used    int64 // bytes that the process used
	Limit   int64 // bytes that the process was allowed to use
	Memory  bool  // whether the process used nearly all of its memory when it ended
	// Owner is the process whose end is the evidence, if memory is not; see [Crashes.ReleaseUnfounded].
	// [Quarantine.Quarantined] and [Quarantine.EvidenceOf] do not return it.
	Owner string
}
