package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// A meter is how far a tenant's run had come before a commit. What it came to
// since is added to what the tenant used, in the commit's transaction: so none of
// it is lost, and none is counted twice, whatever becomes of the process.
type meter struct {
	tenant, agent string
	step          int64
	usage         abi.Usage
	stats         []abi.EntryStats
	own           map[string]bool // the entries that are the tenant's, not the operator's
	ran           time.Duration   // since the commit before
	now           time.Time
	lacking       int64 // bytes of its journal that are not counted yet
}

// metered reads the meter of a run; nil where nobody counts.
func metered(t tx, c *journal.Commit) (*meter, error) {
	if c.Progress == nil {
		return nil, nil
	}
	var m meter
	var status, usage, stats, pins string
	var updated, now int64
	found, err := one(t, `SELECT tenant, agent, step, usage, stats, modules, status, updated_ms, journal_due, NOW_MS FROM runs WHERE id = $1 AND tenant <> ''`, []any{c.Run},
		&m.tenant, &m.agent, &m.step, &usage, &stats, &pins, &status, &updated, &m.lacking, &now)
	if err != nil || !found {
		return nil, err
	}
	var modules []journal.Pin
	for text, to := range map[string]any{usage: &m.usage, stats: &m.stats, pins: &modules} {
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), to); err != nil {
			return nil, ownError{&Error{Corrupt, "", fmt.Errorf("run %s: %w", c.Run, err)}}
		}
	}
	m.now, m.own = time.UnixMilli(now), map[string]bool{}
	if status == string(journal.StatusRunning) {
		m.ran = max(0, m.now.Sub(time.UnixMilli(updated)))
	}
	for _, p := range modules {
		if p.Digest != "" && p.Ring == chain.Tenant.String() {
			m.own[p.Entry] = true
		}
	}
	return &m, nil
}

// journal is how many bytes of the run's journal count with a commit.
func (m *meter) journal(c *journal.Commit) int64 {
	return dueBytes(c.Progress.Status, m.lacking+c.Bytes())
}

// due is by how much a commit changes the bytes that the tenant's usage lacks.
func (m *meter) due(c *journal.Commit) int64 {
	if m == nil {
		return c.Bytes()
	}
	return c.Bytes() - m.journal(c)
}

// count adds what a run came to since the meter was read, with its journal. It returns
// the quota that the run in progress exceeds, if any.
func (m *meter) count(t tx, c *journal.Commit) (*journal.FullError, error) {
	if m == nil {
		return countEvents(t, c)
	}
	counted := m.journal(c)
	if err := m.add(t, c.Progress, counted); err != nil || counted == 0 {
		return nil, err
	}
	own := scoped{t, m.tenant}
	if err := addRoom(own, counted); err != nil || c.Progress.Status != journal.StatusRunning {
		return nil, err
	}
	return journalFull(own, m.now)
}

// add adds what a run came to since the meter was read, with bytes of its journal.
func (m *meter) add(t tx, p *journal.Progress, journal int64) error {
	day := Day(m.now)
	whole := Usage{Day: day, Agent: m.agent, WallMS: m.ran.Milliseconds(), Calls: max(0, int64(p.Step)-m.step),
		PromptTokens: max(0, p.Usage.PromptTokens-m.usage.PromptTokens), CompletionTokens: max(0, p.Usage.CompletionTokens-m.usage.CompletionTokens), JournalBytes: journal}
	var rows []Usage
	if whole != (Usage{Day: day, Agent: m.agent}) {
		rows = append(rows, whole)
	}
	before := map[string]*abi.EntryStats{}
	for i := range m.stats {
		before[m.stats[i].Agent+"/"+m.stats[i].Entry] = &m.stats[i]
	}
	for i := range p.Stats {
		e := &p.Stats[i]
		if !m.counts(e) {
			continue
		}
		was := before[e.Agent+"/"+e.Entry]
		if was == nil {
			was = &abi.EntryStats{}
		}
		used := Usage{Day: day, Agent: m.agent, Module: e.Digest, Fuel: max(0, e.Fuel-was.Fuel), Calls: max(0, e.Calls-was.Calls),
			WallMS: max(0, e.WallUS/1000-was.WallUS/1000)}
		if used.Calls == 0 && used.Fuel == 0 {
			continue
		}
		rows = append(rows, used)
	}
	return addUsage(scoped{t, m.tenant}, rows...)
}

// counts reports whether an entry is a module of the tenant's.
func (m *meter) counts(e *abi.EntryStats) bool {
	return e.Digest != "" && (m.own[e.Entry] || m.own[e.Agent+"/"+e.Entry])
}
