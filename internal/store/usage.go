package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// A Usage is what was used on a day by an agent. The row without a module has
// the agent's runs, tokens and time; those with one have what the module used.
type Usage struct {
	Day              string `json:"day,omitempty" doc:"The day (UTC)."`
	Agent            string `json:"agent,omitempty"`
	Module           string `json:"module,omitempty" doc:"The module's digest; empty for the agent itself."`
	Runs             int64  `json:"runs" doc:"Runs that began."`
	PromptTokens     int64  `json:"prompt_tokens"`
	CompletionTokens int64  `json:"completion_tokens"`
	Fuel             int64  `json:"fuel" doc:"Fuel of the module."`
	WallMS           int64  `json:"wall_ms" doc:"Time of the runs, or of the module's hooks."`
	Calls            int64  `json:"calls" doc:"Calls of the model, or of the module's hooks."`
	JournalBytes     int64  `json:"journal_bytes" doc:"Bytes that the runs wrote to the journal. A run in progress counts up to 65536 bytes late."`
}

// Add adds what another one counts.
func (u *Usage) Add(o Usage) {
	u.Runs += o.Runs
	u.PromptTokens += o.PromptTokens
	u.CompletionTokens += o.CompletionTokens
	u.Fuel += o.Fuel
	u.WallMS += o.WallMS
	u.Calls += o.Calls
	u.JournalBytes += o.JournalBytes
}

// Day is the day of a time, as usage is counted.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// A QuotaError is a quota that was reached.
type QuotaError struct {
	Quota string // its name in [TenantQuota]'s JSON
	Limit int64
	Used  int64
	// RetryAfter is when it may be otherwise; 0 where only the tenant can change it.
	RetryAfter time.Duration
}

// Error says which, and what to do.
func (e *QuotaError) Error() string {
	wait := "; delete what is not needed, or ask the operator for more"
	if e.RetryAfter > 0 {
		wait = fmt.Sprintf("; try again in %v", e.RetryAfter.Round(time.Second))
	}
	return fmt.Sprintf("the quota %s is reached: %d of %d%s", e.Quota, e.Used, e.Limit, wait)
}

// over returns an error if one more does not fit in.
func over(quota string, limit, used, more int64, retry time.Duration) error {
	if limit <= 0 || used+more <= limit {
		return nil
	}
	return ownError{&QuotaError{Quota: quota, Limit: limit, Used: used, RetryAfter: retry}}
}

// roomForBytes fails with a [*QuotaError] if so many bytes more are too much to keep.
func roomForBytes(t scoped, q TenantQuota, more int64) error {
	if q.StorageBytes <= 0 {
		return nil
	}
	kept := int64(0)
	for _, sql := range []string{
		`SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM tenant_modules WHERE tenant = $1`,
		`SELECT CAST(COALESCE(sum(bytes), 0) AS BIGINT) FROM agent_room WHERE tenant = $1`,
		`SELECT CAST(COALESCE(sum(length(sealed)), 0) AS BIGINT) FROM secrets WHERE tenant = $1`,
	} {
		var n int64
		if err := t.query(func(scan func(...any) error) error { return scan(&n) }, sql); err != nil {
			return err
		}
		kept += n
	}
	return over("storage_bytes", q.StorageBytes, kept, more, 0)
}

// fewer fails with a [*QuotaError] if there are as many as a tenant may have at most,
// whatever its quota says: a bound for what takes little room each.
func fewer(t scoped, what string, most int64, sql string, args ...any) error {
	var n int64
	if err := t.query(func(scan func(...any) error) error { return scan(&n) }, sql, args...); err != nil {
		return err
	}
	return over(what, most, n, 1, 0)
}

// AddUsage counts what was used. Its runs were counted by [Tenant.AdmitRun].
func (n *Tenant) AddUsage(ctx context.Context, rows ...Usage) error {
	return n.update(ctx, func(t scoped) error {
		return addUsage(t, rows...)
	})
}

func addUsage(t scoped, rows ...Usage) error {
	var day Usage // what those of one day come to
	for _, u := range rows {
		if u.Day != day.Day {
			if err := addDay(t, &day); err != nil {
				return err
			}
			day = Usage{Day: u.Day}
		}
		day.Add(u)
		if _, err := t.exec(`INSERT INTO tenant_usage (tenant, day, agent, module, runs, prompt_tokens, completion_tokens, fuel, wall_ms, calls, journal_bytes)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
			ON CONFLICT (tenant, day, agent, module) DO UPDATE SET runs = tenant_usage.runs + $5, prompt_tokens = tenant_usage.prompt_tokens + $6,
			completion_tokens = tenant_usage.completion_tokens + $7, fuel = tenant_usage.fuel + $8, wall_ms = tenant_usage.wall_ms + $9,
			calls = tenant_usage.calls + $10, journal_bytes = tenant_usage.journal_bytes + $11`,
			u.Day, u.Agent, u.Module, u.Runs, u.PromptTokens, u.CompletionTokens, u.Fuel, u.WallMS, u.Calls, u.JournalBytes); err != nil {
			return err
		}
	}
	return addDay(t, &day)
}

// addDay counts for the quotas of a day what was used on it.
func addDay(t scoped, u *Usage) error {
	tokens := u.PromptTokens + u.CompletionTokens
	if u.Runs == 0 && tokens == 0 && u.Fuel == 0 && u.JournalBytes == 0 {
		return nil
	}
	_, err := t.exec(`INSERT INTO usage_days (tenant, day, runs, tokens, fuel, journal_bytes) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (tenant, day) DO UPDATE SET runs = usage_days.runs + $3, tokens = usage_days.tokens + $4, fuel = usage_days.fuel + $5,
		journal_bytes = usage_days.journal_bytes + $6`,
		u.Day, u.Runs, tokens, u.Fuel, u.JournalBytes)
	return err
}

// Usage returns a page of what was used from one day to another, both included, by day,
// agent and module, and the position of its last row if more follow.
func (n *Tenant) Usage(ctx context.Context, from, to string, p Page) (rows []Usage, next *Position, err error) {
	day, rest, _ := strings.Cut(p.name(), "/")
	agent, module, _ := strings.Cut(rest, "/")
	err = n.view(ctx, func(t scoped) (err error) {
		rows, next, err = list(t, p, scanUsage, func(u *Usage) Position { return Position{Name: u.Day + "/" + u.Agent + "/" + u.Module} },
			`SELECT day, agent, module, runs, prompt_tokens, completion_tokens, fuel, wall_ms, calls, journal_bytes FROM tenant_usage
			WHERE tenant = $1 AND day >= $2 AND day <= $3 AND (day, agent, module) > ($4, $5, $6) ORDER BY day, agent, module LIMIT $7`,
			max(from, day), to, day, agent, module)
		return err
	})
	return rows, next, err
}

func scanUsage(scan func(...any) error) (u Usage, err error) {
	err = scan(&u.Day, &u.Agent, &u.Module, &u.Runs, &u.PromptTokens, &u.CompletionTokens, &u.Fuel, &u.WallMS, &u.Calls, &u.JournalBytes)
	return u, err
}

// UsageTotal returns the sum of what was used from one day to another, both included.
func (n *Tenant) UsageTotal(ctx context.Context, from, to string) (total Usage, err error) {
	err = n.view(ctx, func(t scoped) error {
		return t.query(func(scan func(...any) error) error {
			return scan(&total.Runs, &total.PromptTokens, &total.CompletionTokens, &total.Fuel, &total.WallMS, &total.Calls, &total.JournalBytes)
		}, `SELECT CAST(COALESCE(sum(runs), 0) AS BIGINT), CAST(COALESCE(sum(prompt_tokens), 0) AS BIGINT), CAST(COALESCE(sum(completion_tokens), 0) AS BIGINT),
			CAST(COALESCE(sum(fuel), 0) AS BIGINT), CAST(COALESCE(sum(wall_ms), 0) AS BIGINT), CAST(COALESCE(sum(calls), 0) AS BIGINT), CAST(COALESCE(sum(journal_bytes), 0) AS BIGINT)
			FROM tenant_usage WHERE tenant = $1 AND day >= $2 AND day <= $3`, from, to)
	})
	return total, err
}

// placeTime is how long a run that was let in may take to be in the journal.
const placeTime = time.Minute

// AdmitRun lets a run begin, or go on after a pause, if the tenant's quotas have
// room for it, on all machines together: it fails with a [*QuotaError]. A run
// that begins is counted. It has a place until the journal has it as one that is
// run; if that never comes it gives the place back after a minute, or by
// [Tenant.ReleaseRun].
func (n *Tenant) AdmitRun(ctx context.Context, run, agent string, begins bool) error {
	return n.update(ctx, func(t scoped) error {
		at, err := admitIn(t, run, begins)
		if err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM run_places WHERE tenant = $1 AND until_ms <= NOW_MS`); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO run_places (tenant, run, until_ms) VALUES ($1, $2, NOW_MS + $3) ON CONFLICT (run) DO NOTHING`,
			run, placeTime.Milliseconds()); err != nil || !begins {
			return err
		}
		return addUsage(t, Usage{Day: Day(at), Agent: agent, Runs: 1})
	})
}

// RoomForRun fails with a [*QuotaError] if no run of the tenant's may begin now. It takes
// no place: the answer may be another one when the run begins.
func (n *Tenant) RoomForRun(ctx context.Context) error {
	return n.view(ctx, func(t scoped) error {
		_, err := admitIn(t, "", true)
		return err
	})
}

// Journal is the store's journal, which lets in the runs that the tenant begins, if its
// quotas have room, and counts them: Create fails with a [*QuotaError]. It is one
// transaction with what else Create does. Runs within others are let in with these.
func (n *Tenant) Journal() journal.Journal { return &tenantJournal{n.s, n} }

type tenantJournal struct {
	*store
	tenant *Tenant
}

// Create implements [agent.Journal].
func (j *tenantJournal) Create(ctx context.Context, r *journal.Creation) error {
	if r.Parent != "" {
		return j.store.Create(ctx, r)
	}
	own := *r
	own.Tenant = j.tenant.id
	insert, err := inserted(&own)
	if err != nil {
		return err
	}
	return j.staged(ctx, nil, nil, func(log []*body) error {
		return j.tenant.in(ctx, r.Lazy, func(t scoped) error {
			at, err := admitIn(t, r.ID, true)
			if err != nil {
				return err
			}
			if err := insert(t.tx, log[0]); err != nil {
				return err
			}
			return addUsage(t, Usage{Day: Day(at), Agent: r.Agent, Runs: 1})
		})
	}, r.Log)
}

// admitIn fails if the tenant's quotas have no room for a run. It returns what time it
// is: the day is the database's, whose clock all machines share.
func admitIn(t scoped, run string, begins bool) (time.Time, error) {
	info, err := tenantIn(t.tx, t.tenant)
	if err != nil {
		return time.Time{}, err
	}
	var now int64
	if _, err := one(t.tx, `SELECT NOW_MS`, nil, &now); err != nil {
		return time.Time{}, err
	}
	at := time.UnixMilli(now).UTC()
	if t.tenant == Operator {
		return at, nil
	}
	return at, admit(t, info.Quota, run, at, begins)
}

// admit compares what is used with the quota.
func admit(t scoped, q TenantQuota, run string, at time.Time, begins bool) error {
	var running, runs, tokens, fuel, written int64
	scan := func(out ...any) func(func(...any) error) error {
		return func(scan func(...any) error) error { return scan(out...) }
	}
	if q.ConcurrentRuns <= 0 {
		// There is no limit to compare them with.
	} else if err := t.query(scan(&running), `SELECT
		(SELECT count(*) FROM runs WHERE tenant = $1 AND status = 'running' AND lease_ms > NOW_MS AND parent = '' AND id <> $2) +
		(SELECT count(*) FROM run_places WHERE tenant = $1 AND until_ms > NOW_MS AND run <> $2
			AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = run_places.run AND status = 'running' AND lease_ms > NOW_MS))`, run); err != nil {
		return err
	}
	if err := t.query(scan(&runs, &tokens, &fuel, &written), `SELECT runs, tokens, fuel, journal_bytes FROM usage_days WHERE tenant = $1 AND day = $2`, Day(at)); err != nil {
		return err
	}
	kept, err := journalRoom(t)
	if err != nil {
		return err
	}
	tomorrow := at.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(at)
	begun := int64(0)
	if begins {
		begun = 1
	}
	for _, err := range []error{
		over("concurrent_runs", q.ConcurrentRuns, running, 1, time.Second),
		over("runs_per_day", q.RunsPerDay, runs, begun, tomorrow),
		over("tokens_per_day", q.TokensPerDay, tokens, 1, tomorrow),
		over("fuel_per_day", q.FuelPerDay, fuel, 1, tomorrow),
		over("journal_bytes_per_day", q.journalBytesPerDay(), written, 1, tomorrow),
		over("journal_bytes", q.journalBytes(), kept, 1, 0),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// ReleaseRun gives back the place of a run that did not begin after all. That
// it was counted stays.
func (n *Tenant) ReleaseRun(ctx context.Context, run string) error {
	return n.update(ctx, func(t scoped) error {
		_, err := t.exec(`DELETE FROM run_places WHERE tenant = $1 AND run = $2`, run)
		return err
	})
}
