package store

import (
	"encoding/json"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

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
