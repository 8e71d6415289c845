package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// Journal quotas of a tenant whose own quota does not set them.
const (
	DefaultJournalBytes       = 4 << 30
	DefaultJournalBytesPerDay = 2 << 30
)

// maxDueBytes is how many bytes of a run in progress its tenant's usage may lack. The
// run's own row has them as journal_due; they are counted when the run stops.
const maxDueBytes = 64 << 10

func (q *TenantQuota) journalBytes() int64 { return cmp.Or(q.JournalBytes, DefaultJournalBytes) }

func (q *TenantQuota) journalBytesPerDay() int64 {
	return cmp.Or(q.JournalBytesPerDay, DefaultJournalBytesPerDay)
}

// dueBytes returns how many bytes of a run to count now, of those that its tenant's
// usage lacks: all of them once the run stopped, and a large number of them before.
func dueBytes(status journal.Status, lacking int64) int64 {
	if status == journal.StatusRunning && lacking < maxDueBytes {
		return 0
	}
	return lacking
}

// countJournal adds bytes that a run wrote to what its tenant used today, and keeps.
func countJournal(t scoped, agent string, at time.Time, n int64) error {
	if err := addUsage(t, Usage{Day: Day(at), Agent: agent, JournalBytes: n}); err != nil {
		return err
	}
	return addRoom(t, n)
}

// fewBytes is the size of a commit of nothing but events below which the run's next
// commit counts them.
const fewBytes = 4 << 10

// countEvents counts a commit that has no meter: only events, in which case it returns
// the quota that the run exceeds, or a run of the operator's, which has no quota.
func countEvents(t tx, c *journal.Commit) (*journal.FullError, error) {
	if c.Progress != nil || c.Bytes() < fewBytes {
		return nil, nil
	}
	own, at, n, err := countDue(t, c.Run, journal.StatusRunning)
	if err != nil || n == 0 {
		return nil, err
	}
	return journalFull(own, at)
}

// countDue counts what the usage of a run's tenant lacks, all of it if the run stopped.
// It returns how many bytes those were, and the tenant.
func countDue(t tx, run string, status journal.Status) (own scoped, at time.Time, n int64, err error) {
	var name string
	var lacking, now int64
	own.tx = t
	if _, err = one(t, `SELECT tenant, agent, journal_due, NOW_MS FROM runs WHERE id = $1 AND tenant <> ''`, []any{run}, &own.tenant, &name, &lacking, &now); err != nil {
		return own, at, 0, err
	}
	at = time.UnixMilli(now)
	if n = dueBytes(status, lacking); n == 0 {
		return own, at, 0, nil
	}
	if _, err = t.exec(`UPDATE runs SET journal_due = journal_due - $2 WHERE id = $1`, run, n); err != nil {
		return own, at, 0, err
	}
	return own, at, n, countJournal(own, name, at, n)
}

// addRoom adds to the bytes that the tenant's runs keep.
func addRoom(t scoped, n int64) error {
	if n == 0 {
		return nil
	}
	_, err := t.exec(`INSERT INTO journal_room (tenant, bytes) VALUES ($1, $2) ON CONFLICT (tenant) DO UPDATE SET bytes = journal_room.bytes + $2`, n)
	return err
}

// freed are the bytes of deleted runs, by their tenants.
type freed map[string]int64

// deletedRun ends a statement that deletes a run.
const deletedRun = ` RETURNING tenant, journal_bytes - journal_due`

// add takes a row of deletedRun.
func (f freed) add(tenant string, n int64) {
	if tenant != Operator {
		f[tenant] += n
	}
}

// give subtracts the bytes from what the tenants keep. It is the last thing that a
// transaction does: it waits for commits of the tenants' runs.
func (f freed) give(t tx) error {
	for _, tenant := range slices.Sorted(maps.Keys(f)) {
		if err := addRoom(scoped{t, tenant}, -f[tenant]); err != nil {
			return err
		}
	}
	return nil
}

// JournalBytes returns how many bytes the journals of the tenant's runs keep.
func (n *Tenant) JournalBytes(ctx context.Context) (kept int64, err error) {
	err = n.view(ctx, func(t scoped) error {
		kept, err = journalRoom(t)
		return err
	})
	return kept, err
}

func journalRoom(t scoped) (kept int64, err error) {
	err = t.query(func(scan func(...any) error) error { return scan(&kept) }, `SELECT bytes FROM journal_room WHERE tenant = $1`)
	return kept, err
}

// journalFull returns the quota that a tenant's runs exceed; nil if there is none. A
// tenant that the platform does not know has no quota.
func journalFull(t scoped, at time.Time) (*journal.FullError, error) {
	info, err := tenantIn(t.tx, t.tenant)
	if errors.Is(err, ErrNoTenant) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kept, err := journalRoom(t)
	if err != nil {
		return nil, err
	}
	var today int64
	if err := t.query(func(scan func(...any) error) error { return scan(&today) }, `SELECT journal_bytes FROM usage_days WHERE tenant = $1 AND day = $2`, Day(at)); err != nil {
		return nil, err
	}
	if limit := info.Quota.journalBytes(); kept > limit {
		return &journal.FullError{Limit: "journal_bytes", Quota: true, Max: limit, Used: kept}, nil
	}
	if limit := info.Quota.journalBytesPerDay(); today > limit {
		return &journal.FullError{Limit: "journal_bytes_per_day", Quota: true, Max: limit, Used: today}, nil
	}
	return nil, nil
}
