package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A Usage is the usage of an agent on a day. The row without a module counts the agent's runs, tokens, time, model
// calls, journal bytes and cost. Each row with a module counts the module's fuel, time and calls.
type Usage struct {
	Day              string // in UTC, such as "2026-01-31"
	Agent            string
	Module           string // digest; empty for the agent itself
	Runs             int64  // runs that started
	PromptTokens     int64
	CompletionTokens int64
	Fuel             int64 // fuel of the module
	WallMS           int64 // wall time of the runs, or of the module's hooks
	Calls            int64 // calls of the model, or of the module's hooks
	JournalBytes     int64 // bytes written to the journal; up to 64 KiB of a run in progress are counted later
	CostNano         int64 // cost of the tokens, in billionths of the currency
}

// Add adds the counts of another usage.
func (u *Usage) Add(o Usage) {
	u.Runs += o.Runs
	u.PromptTokens += o.PromptTokens
	u.CompletionTokens += o.CompletionTokens
	u.Fuel += o.Fuel
	u.WallMS += o.WallMS
	u.Calls += o.Calls
	u.JournalBytes += o.JournalBytes
	u.CostNano += o.CostNano
}

// Day returns the day (UTC) that the usage at a time belongs to.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// AddUsage adds rows to the tenant's usage. [Tenant.AdmitRun] and [Tenant.Journal] count the runs
// that start, so the rows need not. A row without a day belongs to the current one, by the database's
// clock.
func (n *Tenant) AddUsage(ctx context.Context, rows ...Usage) error {
	return n.update(ctx, func(t scoped) error {
		now, err := nowIn(t.tx)
		if err != nil {
			return err
		}
		rows := slices.Clone(rows)
		for i := range rows {
			rows[i].Day = cmp.Or(rows[i].Day, Day(now))
		}
		return addUsage(t, rows...)
	})
}

func addUsage(t scoped, rows ...Usage) error {
	var day Usage // sum of the rows of one day
	for _, u := range rows {
		if u.Day != day.Day {
			if err := addDay(t, &day); err != nil {
				return err
			}
			day = Usage{Day: u.Day}
		}
		day.Add(u)
		_, err := t.Exec(`INSERT INTO tenant_usage (tenant, day, agent, module, runs, prompt_tokens,
				completion_tokens, fuel, wall_ms, calls, journal_bytes, cost_nano)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
			ON CONFLICT (tenant, day, agent, module) DO UPDATE SET
				runs = tenant_usage.runs + $5,
				prompt_tokens = tenant_usage.prompt_tokens + $6,
				completion_tokens = tenant_usage.completion_tokens + $7,
				fuel = tenant_usage.fuel + $8,
				wall_ms = tenant_usage.wall_ms + $9,
				calls = tenant_usage.calls + $10,
				journal_bytes = tenant_usage.journal_bytes + $11,
				cost_nano = tenant_usage.cost_nano + $12`,
			u.Day, u.Agent, u.Module, u.Runs, u.PromptTokens, u.CompletionTokens, u.Fuel, u.WallMS, u.Calls, u.JournalBytes,
			u.CostNano)
		if err != nil {
			return err
		}
	}
	return addDay(t, &day)
}

// addDay adds u to the tenant's totals of its day, which the daily quotas limit.
func addDay(t scoped, u *Usage) error {
	tokens := u.PromptTokens + u.CompletionTokens
	if u.Runs == 0 && tokens == 0 && u.Fuel == 0 && u.JournalBytes == 0 {
		return nil
	}
	_, err := t.Exec(
		`INSERT INTO usage_days (tenant, day, runs, tokens, fuel, journal_bytes) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (tenant, day) DO UPDATE SET
			runs = usage_days.runs + $3,
			tokens = usage_days.tokens + $4,
			fuel = usage_days.fuel + $5,
			journal_bytes = usage_days.journal_bytes + $6`,
		u.Day,
		u.Runs,
		tokens,
		u.Fuel,
		u.JournalBytes,
	)
	return err
}

// Usage returns a page of the usage from one day to another, both included, ordered by day,
// agent and module, and the position of its last row if more follow.
func (n *Tenant) Usage(ctx context.Context, from, to string, p Page) (rows []Usage, next *Position, err error) {
	day, rest, _ := strings.Cut(p.name(), "/")
	agent, module, _ := strings.Cut(rest, "/")
	err = n.view(ctx, func(t scoped) (err error) {
		rows, next, err = list(
			t,
			p,
			scanUsage,
			func(u *Usage) Position { return Position{Name: u.Day + "/" + u.Agent + "/" + u.Module} },
			`SELECT day, agent, module, runs, prompt_tokens, completion_tokens, fuel, wall_ms, calls, journal_bytes,
				cost_nano
			FROM tenant_usage
			WHERE tenant = $1 AND day >= $2 AND day <= $3 AND (day, agent, module) > ($4, $5, $6)
			ORDER BY day, agent, module LIMIT $7`,
			max(from, day),
			to,
			day,
			agent,
			module,
		)
		return err
	})
	return rows, next, err
}

func scanUsage(scan func(...any) error) (u Usage, err error) {
	err = scan(&u.Day, &u.Agent, &u.Module, &u.Runs, &u.PromptTokens, &u.CompletionTokens, &u.Fuel, &u.WallMS, &u.Calls,
		&u.JournalBytes, &u.CostNano)
	return u, err
}

// UsageTotal returns the sum of the usage from one day to another, both included.
func (n *Tenant) UsageTotal(ctx context.Context, from, to string) (total Usage, err error) {
	err = n.view(ctx, func(t scoped) error {
		return t.row(
			[]any{
				&total.Runs,
				&total.PromptTokens,
				&total.CompletionTokens,
				&total.Fuel,
				&total.WallMS,
				&total.Calls,
				&total.JournalBytes,
				&total.CostNano,
			},
			`SELECT CAST(COALESCE(sum(runs), 0) AS BIGINT),
				CAST(COALESCE(sum(prompt_tokens), 0) AS BIGINT),
				CAST(COALESCE(sum(completion_tokens), 0) AS BIGINT),
				CAST(COALESCE(sum(fuel), 0) AS BIGINT),
				CAST(COALESCE(sum(wall_ms), 0) AS BIGINT),
				CAST(COALESCE(sum(calls), 0) AS BIGINT),
				CAST(COALESCE(sum(journal_bytes), 0) AS BIGINT),
				CAST(COALESCE(sum(cost_nano), 0) AS BIGINT)
			FROM tenant_usage WHERE tenant = $1 AND day >= $2 AND day <= $3`,
			from,
			to,
		)
	})
	return total, err
}

// A meter holds the counters of a tenant's run before a commit. The commit's transaction
// adds the differences to the tenant's usage. Each difference is therefore counted exactly once,
// even if the process ends.
type meter struct {
	tenant, agent string
	token         string // the token whose quotas count the run's tokens; empty for none
	step          int64
	usage         abi.Usage
	models        map[string]abi.Usage
	costNano      int64 // cost of the commit; see price
	stats         []abi.EntryStats
	own           map[string]bool // set of the names of entries that the tenant, not the operator, defined
	elapsed       time.Duration   // time since the previous commit; 0 if the run was not running
	now           time.Time
	uncounted     int64 // bytes of the journal that are not counted yet
}

// readMeter reads the meter of a run. It returns nil for a commit without progress, and for
// a run of the operator.
func readMeter(t database.Tx, c *journal.Commit) (*meter, error) {
	if c.Progress == nil {
		return nil, nil
	}
	var m meter
	var status, usage, stats, pins, models string
	var updated, now int64
	found, err := database.One(
		t,
		`SELECT tenant, agent, token, step, usage, stats, modules, models, status, updated_ms, journal_due, NOW_MS FROM runs WHERE id = $1 AND tenant <> ''`,
		[]any{c.Run},
		&m.tenant,
		&m.agent,
		&m.token,
		&m.step,
		&usage,
		&stats,
		&pins,
		&models,
		&status,
		&updated,
		&m.uncounted,
		&now,
	)
	if err != nil || !found {
		return nil, err
	}
	var modules []journal.Pin
	for text, to := range map[string]any{usage: &m.usage, stats: &m.stats, pins: &modules, models: &m.models} {
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), to); err != nil {
			return nil, database.Corruptf("run %s: %w", c.Run, err)
		}
	}
	m.now, m.own = time.UnixMilli(now), map[string]bool{}
	if status == string(journal.StatusRunning) {
		m.elapsed = max(0, m.now.Sub(time.UnixMilli(updated)))
	}
	for _, p := range modules {
		if p.Digest != "" && p.Ring == hook.Tenant.String() {
			m.own[p.Entry] = true
		}
	}
	return &m, nil
}

// journal returns the number of bytes of the run's journal that are added to the tenant's usage
// with a commit.
func (m *meter) journal(c *journal.Commit) int64 {
	return dueBytes(c.Progress.Status, m.uncounted+c.Bytes())
}

// due returns the number of bytes by which a commit changes the run's uncounted bytes. It can be
// negative.
func (m *meter) due(c *journal.Commit) int64 {
	if m == nil {
		return c.Bytes()
	}
	return c.Bytes() - m.journal(c)
}

// price returns the cost of the tokens of a commit, in billionths of the currency, and stores it in m
// for count.
func (m *meter) price(c *journal.Commit, cost CostFunc) int64 {
	if m == nil || cost == nil {
		return 0
	}
	for model, after := range c.Progress.Models {
		before := m.models[model]
		m.costNano += max(0, cost(model, max(0, after.PromptTokens-before.PromptTokens),
			max(0, after.CompletionTokens-before.CompletionTokens)))
	}
	return m.costNano
}

// count adds the differences since the meter was read to the tenant's usage. If the run is in
// progress, count returns the journal quota that its tenant exceeds, or nil.
func (m *meter) count(t database.Tx, c *journal.Commit) (*journal.FullError, error) {
	if m == nil {
		return countEvents(t, c)
	}
	counted := m.journal(c)
	own := scoped{t, m.tenant}
	if err := addUsage(own, m.rows(c.Progress, counted)...); err != nil || counted == 0 {
		return nil, err
	}
	if err := addJournalBytes(own, counted); err != nil || c.Progress.Status != journal.StatusRunning {
		return nil, err
	}
	return exceededJournalQuota(own, m.now)
}

// rows returns the differences as rows of usage, without rows of zeros.
func (m *meter) rows(p *journal.Progress, journal int64) []Usage {
	day := Day(m.now)
	total := Usage{Day: day, Agent: m.agent, WallMS: m.elapsed.Milliseconds(), Calls: max(0, int64(p.Step)-m.step),
		PromptTokens: max(
			0,
			p.Usage.PromptTokens-m.usage.PromptTokens,
		), CompletionTokens: max(0, p.Usage.CompletionTokens-m.usage.CompletionTokens), JournalBytes: journal,
		CostNano: m.costNano}
	var rows []Usage
	if total != (Usage{Day: day, Agent: m.agent}) {
		rows = append(rows, total)
	}
	before := map[string]*abi.EntryStats{}
	for i := range m.stats {
		before[m.stats[i].Agent+"/"+m.stats[i].Entry] = &m.stats[i]
	}
	for i := range p.Stats {
		after := &p.Stats[i]
		if !m.counts(after) {
			continue
		}
		b := before[after.Agent+"/"+after.Entry]
		if b == nil {
			b = &abi.EntryStats{}
		}
		used := Usage{
			Day:    day,
			Agent:  m.agent,
			Module: after.Digest,
			Fuel:   max(0, after.Fuel-b.Fuel),
			Calls:  max(0, after.Calls-b.Calls),
			WallMS: max(0, after.WallUS/1000-b.WallUS/1000),
		}
		if used.Calls > 0 || used.Fuel > 0 {
			rows = append(rows, used)
		}
	}
	return rows
}

// counts reports whether an entry is a module of the tenant.
func (m *meter) counts(e *abi.EntryStats) bool {
	return e.Digest != "" && (m.own[e.Entry] || m.own[e.Agent+"/"+e.Entry])
}

// chargeToken adds the model tokens and the cost of a commit to the usage of the run's token. It sets
// c.Full if the run is in progress and a quota of the token is exceeded. Each difference is counted
// once, as in the tenant's usage.
func (m *meter) chargeToken(t database.Tx, c *journal.Commit) error {
	if m == nil || m.token == "" {
		return nil
	}
	p := c.Progress
	used := max(0, p.Usage.PromptTokens-m.usage.PromptTokens) + max(0, p.Usage.CompletionTokens-m.usage.CompletionTokens)
	if used == 0 && m.costNano == 0 {
		return nil
	}
	var limits, sums TokenUsage
	if _, err := database.One(t, `UPDATE tokens SET tokens = tokens + $2, cost_nano = cost_nano + $3 WHERE id = $1
		RETURNING max_tokens, tokens, max_cost_nano, cost_nano`, []any{m.token, used, m.costNano},
		&limits.Tokens, &sums.Tokens, &limits.CostNano, &sums.CostNano); err != nil {
		return fmt.Errorf("charge token %s: %w", m.token, err)
	}
	if p.Status != journal.StatusRunning || c.Full != nil {
		return nil
	}
	switch {
	case limits.Tokens > 0 && sums.Tokens > limits.Tokens:
		c.Full = &journal.FullError{Limit: quotaTokenTokens, Token: true, Max: limits.Tokens, Used: sums.Tokens}
	case limits.CostNano > 0 && sums.CostNano > limits.CostNano:
		c.Full = &journal.FullError{Limit: quotaTokenCost, Token: true, Max: limits.CostNano, Used: sums.CostNano}
	}
	return nil
}
