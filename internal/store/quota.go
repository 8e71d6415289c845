package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A TenantQuota limits a tenant. The store saves it as JSON. Fields are unlimited when 0, except
// those with a default. The server, not the store, enforces MemoryBytes and the fields after it up to
// RequestsPerMin.
type TenantQuota struct {
	ConcurrentRuns int64 `json:"concurrent_runs,omitempty"`
	RunsPerDay     int64 `json:"runs_per_day,omitempty"`
	TokensPerDay   int64 `json:"tokens_per_day,omitempty"` // prompts and completions together
	FuelPerDay     int64 `json:"fuel_per_day,omitempty"`
	Modules        int64 `json:"modules,omitempty"`
	StorageBytes   int64 `json:"storage_bytes,omitempty"` // bytes of modules, agents, gateways and secrets
	// bytes of durable values; the default is [Quota].All
	ValueBytes int64 `json:"value_bytes,omitempty"`
	// bytes of runs' journals; the default is [DefaultJournalBytes]
	JournalBytes       int64 `json:"journal_bytes,omitempty"`
	JournalBytesPerDay int64 `json:"journal_bytes_per_day,omitempty"` // the default is [DefaultJournalBytesPerDay]
	MemoryBytes        int64 `json:"memory_bytes,omitempty"`
	UploadBytes        int64 `json:"upload_bytes,omitempty"`
	InputBytes         int64 `json:"input_bytes,omitempty"`
	Requests           int64 `json:"concurrent_requests,omitempty"`
	RequestsPerMin     int64 `json:"requests_per_minute,omitempty"`

	Threads        int64 `json:"threads,omitempty"`         // the default is [DefaultThreads]
	ThreadMessages int64 `json:"thread_messages,omitempty"` // messages of a thread; the default is [DefaultThreadMessages]
	ThreadBytes    int64 `json:"thread_bytes,omitempty"`    // bytes of a thread's messages; the default is [DefaultThreadBytes]
	QueuedRuns     int64 `json:"queued_runs,omitempty"`     // runs in the queue of a thread; the default is [DefaultQueuedRuns]
}

// Quotas of threads of a tenant whose own quota does not set them.
const (
	DefaultThreads        = 100_000
	DefaultThreadMessages = 10_000
	DefaultThreadBytes    = 16 << 20
	DefaultQueuedRuns     = 16
)

// Journal quotas of a tenant whose own quota does not set them, in bytes.
const (
	DefaultJournalBytes       = 4 << 30
	DefaultJournalBytesPerDay = 2 << 30
)

func (q *TenantQuota) journalBytes() int64 { return cmp.Or(q.JournalBytes, DefaultJournalBytes) }

func (q *TenantQuota) journalBytesPerDay() int64 {
	return cmp.Or(q.JournalBytesPerDay, DefaultJournalBytesPerDay)
}

// A QuotaError reports that a quota of a tenant, or a limit that applies to every tenant, is
// exhausted.
type QuotaError struct {
	Quota string // the name in [TenantQuota]'s JSON, or the kind of limited rows, such as "keys"
	Limit int64
	Used  int64
	// RetryAfter is the time until the quota may allow more; 0 if only the tenant or the
	// operator can change that.
	RetryAfter time.Duration
	// Advice replaces the default advice, which is to delete something or to ask the operator. It may
	// be empty.
	Advice string
}

// Error returns the quota and advice.
func (e *QuotaError) Error() string {
	advice := "; delete something, or ask the operator for a larger quota"
	switch {
	case e.Advice != "":
		advice = "; " + e.Advice
	case e.RetryAfter > 0:
		advice = fmt.Sprintf("; try again in %v", e.RetryAfter.Round(time.Second))
	}
	return fmt.Sprintf("the quota %s is reached: %d of %d%s", e.Quota, e.Used, e.Limit, advice)
}

// checkQuota returns a [*QuotaError] if used+more exceeds limit. A limit of 0 means no limit.
func checkQuota(quota string, limit, used, more int64, retry time.Duration) error {
	if limit <= 0 || used+more <= limit {
		return nil
	}
	return database.ForCaller(&QuotaError{Quota: quota, Limit: limit, Used: used, RetryAfter: retry})
}

// checkStorage fails with a [*QuotaError] if the tenant's stored bytes, plus more, exceed its
// storage quota.
func checkStorage(t scoped, q TenantQuota, more int64) error {
	if q.StorageBytes <= 0 {
		return nil
	}
	used := int64(0)
	for _, sql := range []string{
		`SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM tenant_modules WHERE tenant = $1`,
		`SELECT CAST(COALESCE(sum(bytes), 0) AS BIGINT) FROM agent_room WHERE tenant = $1`,
		`SELECT CAST(COALESCE(sum(length(body)), 0) AS BIGINT) FROM tenant_gateways WHERE tenant = $1`,
		`SELECT CAST(COALESCE(sum(length(sealed)), 0) AS BIGINT) FROM secrets WHERE tenant = $1`,
	} {
		var n int64
		if err := t.row([]any{&n}, sql); err != nil {
			return err
		}
		used += n
	}
	return checkQuota("storage_bytes", q.StorageBytes, used, more, 0)
}

// checkCount fails with a [*QuotaError] if the rows that a statement counts have reached a
// limit. Such limits apply to every tenant, and bound the number of small rows.
func checkCount(t scoped, what string, limit int64, sql string, args ...any) error {
	var n int64
	if err := t.row([]any{&n}, sql, args...); err != nil {
		return err
	}
	return checkQuota(what, limit, n, 1, 0)
}

// admissionTTL is the time within which an admitted run must be in the journal.
const admissionTTL = time.Minute

// AdmitRun admits a run. The run starts or, if starts is false, resumes after a pause. AdmitRun fails
// with a [*QuotaError] if the tenant's quotas, which apply to all machines together, do not allow the
// run, and with [ErrNoTenant] if the tenant does not exist. It adds a run that starts to the tenant's
// usage of the day. The admission counts as a run in progress until the journal records the run as
// running, until [Tenant.ReleaseRun] is called, or for at most a minute.
func (n *Tenant) AdmitRun(ctx context.Context, run, agent string, starts bool) error {
	return n.update(ctx, func(t scoped) error {
		at, err := checkRunQuotas(t, run, starts)
		if err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM run_places WHERE tenant = $1 AND until_ms <= NOW_MS`); err != nil {
			return err
		}
		if _, err := t.Exec(`INSERT INTO run_places (tenant, run, until_ms) VALUES ($1, $2, NOW_MS + $3) ON CONFLICT (run) DO NOTHING`,
			run, admissionTTL.Milliseconds()); err != nil ||
			!starts {
			return err
		}
		return addUsage(t, Usage{Day: Day(at), Agent: agent, Runs: 1})
	})
}

// CheckRunQuotas fails with a [*QuotaError] if the tenant's quotas do not allow it to start
// a run now. It reserves nothing.
func (n *Tenant) CheckRunQuotas(ctx context.Context) error {
	return n.view(ctx, func(t scoped) error {
		_, err := checkRunQuotas(t, "", true)
		return err
	})
}

// ReleaseRun withdraws the admission of a run that did not start. The usage of the day still counts
// the run.
func (n *Tenant) ReleaseRun(ctx context.Context, run string) error {
	return n.update(ctx, func(t scoped) error {
		_, err := t.Exec(`DELETE FROM run_places WHERE tenant = $1 AND run = $2`, run)
		return err
	})
}

// Journal returns the store's journal, whose Create admits and counts the tenant's runs as
// [Tenant.AdmitRun] does, in the transaction that creates them. Create does not check the
// runs of sub-agents, which their parents' admissions cover.
func (n *Tenant) Journal() journal.Journal { return &tenantJournal{n.s, n} }

type tenantJournal struct {
	*store
	tenant *Tenant
}

// Create implements [journal.Journal].
func (j *tenantJournal) Create(ctx context.Context, r *journal.Creation) error {
	if r.Parent != "" {
		return j.store.Create(ctx, r)
	}
	own := *r
	own.Tenant = j.tenant.id
	insert, err := runInsertion(&own)
	if err != nil {
		return err
	}
	return j.blobs.Write(ctx, blob.Options{}, func(log []*blob.Body) error {
		return j.tenant.transact(ctx, database.TxOptions{Lazy: r.Lazy}, func(t scoped) error {
			at, err := checkRunQuotas(t, r.ID, true)
			if err != nil {
				return err
			}
			place, err := beginInThread(t, r)
			if err != nil {
				return err
			}
			if err := insert(t.tx, log[0], place); err != nil {
				return err
			}
			if err := addUsage(t, Usage{Day: Day(at), Agent: r.Agent, Runs: 1}); err != nil || place.began != 0 {
				return err // the token was charged when the run was queued
			}
			return startWithToken(t, r.Token)
		})
	}, r.Log)
}

// checkRunQuotas fails with a [*QuotaError] if the tenant's quotas do not allow a run. The
// operator has no quotas. It returns the time by the database's clock, which all machines
// share.
func checkRunQuotas(t scoped, run string, starts bool) (time.Time, error) {
	info, err := tenantIn(t.tx, t.tenant)
	if err != nil {
		return time.Time{}, err
	}
	now, err := nowIn(t.tx)
	if err != nil {
		return time.Time{}, err
	}
	now = now.UTC()
	if t.tenant == Operator {
		return now, nil
	}
	return now, compareUsage(t, info.Quota, run, now, starts)
}

// compareUsage fails with a [*QuotaError] if the tenant's usage and one more run exceed its quota.
// It does not count run itself as a run in progress. The quota runs_per_day does not apply to a run
// that resumes.
func compareUsage(t scoped, q TenantQuota, run string, now time.Time, starts bool) error {
	var running int64
	if q.ConcurrentRuns > 0 {
		if err := t.row([]any{&running}, `SELECT
			(SELECT count(*) FROM runs
				WHERE tenant = $1 AND status = 'running' AND lease_ms > NOW_MS AND parent = '' AND id <> $2) +
			(SELECT count(*) FROM run_places
				WHERE tenant = $1 AND until_ms > NOW_MS AND run <> $2 AND NOT EXISTS
				(SELECT 1 FROM runs WHERE runs.id = run_places.run AND status = 'running' AND lease_ms > NOW_MS))`,
			run); err != nil {
			return err
		}
	}
	used, err := usageOn(t, now)
	if err != nil {
		return err
	}
	stored, err := journalBytes(t)
	if err != nil {
		return err
	}
	started := int64(0)
	if starts {
		started = 1
	}
	for _, err := range []error{
		checkQuota("concurrent_runs", q.ConcurrentRuns, running, 1, time.Second),
		used.check(q, started),
		checkQuota("journal_bytes_per_day", q.journalBytesPerDay(), used.written, 1, used.rest),
		checkQuota("journal_bytes", q.journalBytes(), stored, 1, 0),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// A dayUsage is a tenant's usage on a day.
type dayUsage struct {
	runs, tokens, fuel, written int64
	rest                        time.Duration // time until the next day
}

// usageOn returns the tenant's usage on the day of now, a time in UTC.
func usageOn(t scoped, now time.Time) (dayUsage, error) {
	u := dayUsage{rest: now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)}
	err := t.row([]any{&u.runs, &u.tokens, &u.fuel, &u.written},
		`SELECT runs, tokens, fuel, journal_bytes FROM usage_days WHERE tenant = $1 AND day = $2`, Day(now))
	return u, err
}

// check fails with a [*QuotaError] if the quotas of the day do not allow the given number of additional runs, or if
// the tokens or the fuel of the day are used up.
func (u *dayUsage) check(q TenantQuota, runs int64) error {
	return cmp.Or(
		checkQuota("runs_per_day", q.RunsPerDay, u.runs, runs, u.rest),
		checkQuota("tokens_per_day", q.TokensPerDay, u.tokens, 1, u.rest),
		checkQuota("fuel_per_day", q.FuelPerDay, u.fuel, 1, u.rest),
	)
}
