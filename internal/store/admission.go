package store

import (
	"cmp"
	"context"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

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
