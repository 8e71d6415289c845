package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

const (
	// maxDueBytes limits the number of bytes that a run in progress has written to its journal, but
	// that its tenant's usage does not include yet. The column journal_due of the run's row holds
	// that number. Smaller numbers are counted when the run stops.
	maxDueBytes = 64 << 10
	// minCountedEvents is the minimum size, in bytes, of a commit of events alone that counts
	// the run's due bytes. Smaller commits leave that to a later commit of the run.
	minCountedEvents = 4 << 10
)

// dueBytes returns the number of a run's uncounted bytes to count now: uncounted if the run has
// stopped or uncounted is at least maxDueBytes, and 0 otherwise.
func dueBytes(status journal.Status, uncounted int64) int64 {
	if status == journal.StatusRunning && uncounted < maxDueBytes {
		return 0
	}
	return uncounted
}

// countJournal adds n bytes that a run of agent wrote to its journal to the tenant's usage on the
// day of at, and to the tenant's total.
func countJournal(t scoped, agent string, at time.Time, n int64) error {
	if err := addUsage(t, Usage{Day: Day(at), Agent: agent, JournalBytes: n}); err != nil {
		return err
	}
	return addJournalBytes(t, n)
}

// countEvents counts a commit without a meter, which is a commit of events alone or of a run of the
// operator. It leaves commits of less than minCountedEvents bytes to a later call. It returns the
// journal quota that the run's tenant exceeds, or nil. The operator has no quotas.
func countEvents(t database.Tx, c *journal.Commit) (*journal.FullError, error) {
	if c.Progress != nil || c.Bytes() < minCountedEvents {
		return nil, nil
	}
	own, at, n, err := countDue(t, c.Run, journal.StatusRunning)
	if err != nil || n == 0 {
		return nil, err
	}
	return exceededJournalQuota(own, at)
}

// countDue counts the uncounted bytes of a run that are due in a status. It returns the run's
// tenant, the time by the database's clock, and the number of bytes. The number is 0 for a run of
// the operator.
func countDue(t database.Tx, run string, status journal.Status) (own scoped, at time.Time, n int64, err error) {
	var name string
	var uncounted, now int64
	own.tx = t
	if _, err = database.One(t, `SELECT tenant, agent, journal_due, NOW_MS FROM runs WHERE id = $1 AND tenant <> ''`,
		[]any{run}, &own.tenant, &name, &uncounted, &now); err != nil {
		return own, at, 0, err
	}
	at = time.UnixMilli(now)
	if n = dueBytes(status, uncounted); n == 0 {
		return own, at, 0, nil
	}
	if _, err = t.Exec(`UPDATE runs SET journal_due = journal_due - $2 WHERE id = $1`, run, n); err != nil {
		return own, at, 0, err
	}
	return own, at, n, countJournal(own, name, at, n)
}

// addJournalBytes adds n bytes to the recorded size of the journals of the tenant's runs.
func addJournalBytes(t scoped, n int64) error {
	if n == 0 {
		return nil
	}
	_, err := t.Exec(
		`INSERT INTO journal_room (tenant, bytes) VALUES ($1, $2) ON CONFLICT (tenant) DO UPDATE SET bytes = journal_room.bytes + $2`,
		n,
	)
	return err
}

// freedBytes holds the journal sizes of deleted runs by tenant.
type freedBytes map[string]int64

// returningSize is the end of a statement that deletes a run. The statement returns the arguments of
// [freedBytes.add], and the arguments of deleteRunRows.
const returningSize = ` RETURNING tenant, journal_bytes - journal_due, created_ms, terms`

func (f freedBytes) add(tenant string, n int64) {
	if tenant != Operator {
		f[tenant] += n
	}
}

// subtract subtracts the bytes from the sizes of the tenants' journals. It must be the last step of
// a transaction, because it locks rows that commits of the tenants' runs also update.
func (f freedBytes) subtract(t database.Tx) error {
	for _, tenant := range slices.Sorted(maps.Keys(f)) {
		if err := addJournalBytes(scoped{t, tenant}, -f[tenant]); err != nil {
			return err
		}
	}
	return nil
}

// JournalBytes implements [Platform].
func (s *store) JournalBytes(ctx context.Context) (size int64, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		_, err := database.One(t, `SELECT CAST(COALESCE(sum(bytes), 0) AS BIGINT) FROM journal_room`, nil, &size)
		return err
	})
	return size, err
}

// JournalBytes returns the size of the journals of the tenant's runs.
func (n *Tenant) JournalBytes(ctx context.Context) (size int64, err error) {
	err = n.view(ctx, func(t scoped) error {
		size, err = journalBytes(t)
		return err
	})
	return size, err
}

func journalBytes(t scoped) (size int64, err error) {
	return size, t.row([]any{&size}, `SELECT bytes FROM journal_room WHERE tenant = $1`)
}

// exceededJournalQuota returns the journal quota that a tenant exceeds, or nil. A tenant without a
// row, such as that of a run that the command line started, has no quota.
func exceededJournalQuota(t scoped, at time.Time) (*journal.FullError, error) {
	info, err := tenantIn(t.tx, t.tenant)
	if errors.Is(err, ErrNoTenant) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	size, err := journalBytes(t)
	if err != nil {
		return nil, err
	}
	var today int64
	if err := t.row([]any{&today}, `SELECT journal_bytes FROM usage_days WHERE tenant = $1 AND day = $2`, Day(at)); err != nil {
		return nil, err
	}
	if limit := info.Quota.journalBytes(); size > limit {
		return &journal.FullError{Limit: "journal_bytes", Quota: true, Max: limit, Used: size}, nil
	}
	if limit := info.Quota.journalBytesPerDay(); today > limit {
		return &journal.FullError{Limit: "journal_bytes_per_day", Quota: true, Max: limit, Used: today}, nil
	}
	return nil, nil
}
