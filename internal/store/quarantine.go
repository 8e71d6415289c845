package store

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// A Process is one that runs runs, as of its last heartbeat.
type Process struct {
	Owner    string // as runs name it
	Node     string // the machine's name
	Pressure int64  // memory used, in thousandths of the limit
	Used     int64  // bytes
	Limit    int64  // bytes
	Cgroup   string // of Node that limits its memory; empty if it isn't known
	OOMKills int64  // processes of Cgroup that the kernel killed for want of memory
}

// A RunAccount is what a run made its process hold.
type RunAccount struct {
	Run   string
	Held  int64         // bytes
	Share int64         // bytes that it may hold
	Over  time.Duration // for how long it wanted more than its share
}

// Evidence says why a run is quarantined.
type Evidence struct {
	Run     string
	Tenant  string
	Node    string // where its process ended
	Created time.Time
	Reason  string
	Held    int64 // bytes that the run held
	Share   int64 // bytes that it may hold
	Used    int64 // bytes that the process used
	Limit   int64 // bytes that the process may use
	Memory  bool  // the process used nearly all of its memory when it ended
}

// A Death is the unclean exit of a process that ran a run.
type Death struct {
	Process
	Account RunAccount // of the run; the zero value if it was not among those of the last heartbeat
	Largest bool       // it was among those, and none held more
	Alone   bool       // it was resumed as the only suspect
	Killed  bool       // the kernel killed a process of its cgroup for want of memory after the last heartbeat
}

// A Quarantine keeps what is known of processes that ended uncleanly, and the runs that are
// kept from running for it.
type Quarantine interface {
	// BeginProcess stores a process's first heartbeat. Processes of its cgroup that
	// ended uncleanly were killed for want of memory if the kernel counted one more
	// since their last heartbeat.
	BeginProcess(ctx context.Context, p *Process) error
	// Heartbeat stores how a process is, and what its runs hold.
	Heartbeat(ctx context.Context, p *Process, runs []RunAccount) error
	// EndProcess says that a process ended by itself.
	EndProcess(ctx context.Context, owner string) error
	// DeathOf returns how the process ended that ran a run; nil if it ended by itself, or
	// nothing is known of it.
	DeathOf(ctx context.Context, owner, run string) (*Death, error)
	// Suspect says that a process resumes a run as its only suspect.
	Suspect(ctx context.Context, run, owner string) error
	// Clear says that a run is suspect no more.
	Clear(ctx context.Context, run string) error
	// Quarantine keeps a run from running. It does nothing if the run was claimed since.
	Quarantine(ctx context.Context, info *journal.RunInfo, e *Evidence) error
	// Release lets a quarantined run be resumed.
	Release(ctx context.Context, run string) error
	// Quarantined returns a page of the quarantined runs in the order of their ids.
	Quarantined(ctx context.Context, p Page) ([]Evidence, *Position, error)
	// EvidenceOf returns why a run is quarantined; nil if it isn't.
	EvidenceOf(ctx context.Context, run string) (*Evidence, error)
}

// forgetProcesses is for how long processes are known that ended uncleanly.
const forgetProcesses = 7 * 24 * time.Hour

// missedAfter is how long after its last heartbeat a process counts as ended.
const missedAfter = 3 * time.Second

// BeginProcess implements [Quarantine]. A process that lives takes back what is said of it
// here at its next heartbeat.
func (s *store) BeginProcess(ctx context.Context, p *Process) error {
	return s.update(urgent(ctx), true, func(t tx) error {
		if p.Cgroup != "" {
			if _, err := t.exec(`UPDATE processes SET oom_killed = 1, oom_kills = $4 WHERE node = $1 AND cgroup = $2 AND owner <> $3 AND oom_kills < $4`,
				p.Node, p.Cgroup, p.Owner, p.OOMKills); err != nil {
				return err
			}
		}
		return beat(t, p)
	})
}

func beat(t tx, p *Process) error {
	_, err := t.exec(`INSERT INTO processes (owner, node, seen_ms, pressure, used_bytes, limit_bytes, cgroup, oom_kills) VALUES ($1, $2, NOW_MS, $3, $4, $5, $6, $7)
		ON CONFLICT (owner) DO UPDATE SET seen_ms = NOW_MS, pressure = $3, used_bytes = $4, limit_bytes = $5, oom_kills = $7, oom_killed = 0`,
		p.Owner, p.Node, p.Pressure, p.Used, p.Limit, p.Cgroup, p.OOMKills)
	return err
}

// Heartbeat implements [Quarantine].
func (s *store) Heartbeat(ctx context.Context, p *Process, runs []RunAccount) error {
	return s.update(urgent(ctx), true, func(t tx) error {
		if err := beat(t, p); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM run_accounts WHERE owner = $1`, p.Owner); err != nil {
			return err
		}
		for _, r := range runs {
			if _, err := t.exec(`INSERT INTO run_accounts (owner, run, held_bytes, share_bytes, over_ms) VALUES ($1, $2, $3, $4, $5)`,
				p.Owner, r.Run, r.Held, r.Share, r.Over.Milliseconds()); err != nil {
				return err
			}
		}
		return nil
	})
}

// EndProcess implements [Quarantine].
func (s *store) EndProcess(ctx context.Context, owner string) error {
	return s.update(ctx, false, func(t tx) error {
		if _, err := t.exec(`DELETE FROM run_accounts WHERE owner = $1 OR owner IN (SELECT owner FROM processes WHERE seen_ms < NOW_MS - $2)`,
			owner, forgetProcesses.Milliseconds()); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM suspects WHERE owner = $1`, owner); err != nil {
			return err
		}
		_, err := t.exec(`DELETE FROM processes WHERE owner = $1 OR seen_ms < NOW_MS - $2`, owner, forgetProcesses.Milliseconds())
		return err
	})
}

// DeathOf implements [Quarantine].
func (s *store) DeathOf(ctx context.Context, owner, run string) (death *Death, err error) {
	err = s.view(ctx, func(t tx) error {
		d := Death{Process: Process{Owner: owner}, Account: RunAccount{Run: run}}
		var killed int64
		found, err := one(t, `SELECT node, pressure, used_bytes, limit_bytes, cgroup, oom_kills, oom_killed FROM processes
			WHERE owner = $1 AND seen_ms < NOW_MS - $2`, []any{owner, missedAfter.Milliseconds()},
			&d.Node, &d.Pressure, &d.Used, &d.Limit, &d.Cgroup, &d.OOMKills, &killed)
		if err != nil || !found {
			return err
		}
		var over, others, trials int64
		measured, err := one(t, `SELECT held_bytes, share_bytes, over_ms FROM run_accounts WHERE owner = $1 AND run = $2`, []any{owner, run},
			&d.Account.Held, &d.Account.Share, &over)
		if err != nil {
			return err
		}
		if _, err := one(t, `SELECT count(*) FROM run_accounts WHERE owner = $1 AND run <> $2 AND held_bytes > $3`, []any{owner, run, d.Account.Held}, &others); err != nil {
			return err
		}
		if _, err := one(t, `SELECT count(*) FROM suspects WHERE owner = $1 AND run = $2`, []any{owner, run}, &trials); err != nil {
			return err
		}
		d.Account.Over, d.Largest, d.Alone, d.Killed = time.Duration(over)*time.Millisecond, measured && others == 0, trials > 0, killed > 0
		death = &d
		return nil
	})
	return death, err
}

// Suspect implements [Quarantine].
func (s *store) Suspect(ctx context.Context, run, owner string) error {
	return s.update(ctx, false, func(t tx) error {
		_, err := t.exec(`INSERT INTO suspects (run, owner) VALUES ($1, $2) ON CONFLICT (run) DO UPDATE SET owner = $2`, run, owner)
		return err
	})
}

// Clear implements [Quarantine].
func (s *store) Clear(ctx context.Context, run string) error {
	return s.update(ctx, true, func(t tx) error {
		_, err := t.exec(`DELETE FROM suspects WHERE run = $1`, run)
		return err
	})
}

// Quarantine implements [Quarantine].
func (s *store) Quarantine(ctx context.Context, info *journal.RunInfo, e *Evidence) error {
	return s.update(ctx, false, func(t tx) error {
		n, err := t.exec(`UPDATE runs SET epoch = epoch + 1, status = $3, owner = '', lease_ms = 0, updated_ms = NOW_MS
			WHERE id = $1 AND epoch = $2 AND status = 'running' AND lease_ms <= NOW_MS`, info.ID, info.Epoch, string(journal.StatusQuarantined))
		if err != nil || n == 0 {
			return err
		}
		memory := int64(0)
		if e.Memory {
			memory = 1
		}
		if _, err := t.exec(`DELETE FROM quarantine WHERE run = $1`, info.ID); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO quarantine (run, tenant, node, created_ms, reason, held_bytes, share_bytes, used_bytes, limit_bytes, memory)
			VALUES ($1, $2, $3, NOW_MS, $4, $5, $6, $7, $8, $9)`, info.ID, info.Tenant, e.Node, e.Reason, e.Held, e.Share, e.Used, e.Limit, memory); err != nil {
			return err
		}
		_, err = t.exec(`DELETE FROM suspects WHERE run = $1`, info.ID)
		return err
	})
}

// Release implements [Quarantine].
func (s *store) Release(ctx context.Context, id string) error {
	return s.update(ctx, false, func(t tx) error {
		n, err := t.exec(`UPDATE runs SET status = 'running', owner = '', lease_ms = 0, updated_ms = NOW_MS WHERE id = $1 AND status = $2`,
			id, string(journal.StatusQuarantined))
		if err == nil && n == 0 {
			if _, err = run(t, id); err == nil {
				err = ownError{fmt.Errorf("run %s is not quarantined: %w", id, journal.ErrNoRun)}
			}
		}
		if err != nil {
			return err
		}
		_, err = t.exec(`DELETE FROM quarantine WHERE run = $1`, id)
		return err
	})
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
	err = s.view(ctx, func(t tx) (err error) {
		runs, next, err = list(t, p, scanEvidence, func(e *Evidence) Position { return Position{Name: e.Run} },
			`SELECT `+evidenceColumns+` FROM quarantine AS q JOIN runs ON runs.id = q.run AND runs.status = 'quarantined'
			WHERE q.run > $1 ORDER BY q.run LIMIT $2`, p.name())
		return err
	})
	return runs, next, err
}

// EvidenceOf implements [Quarantine].
func (s *store) EvidenceOf(ctx context.Context, run string) (found *Evidence, err error) {
	err = s.view(ctx, func(t tx) error {
		return t.query(func(scan func(...any) error) error {
			e, err := scanEvidence(scan)
			found = &e
			return err
		}, `SELECT `+evidenceColumns+` FROM quarantine AS q WHERE q.run = $1`, run)
	})
	return found, err
}
