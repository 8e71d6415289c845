package store

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A SeriesKind determines what the rows of a series count.
type SeriesKind string

// Kinds of rows.
const (
	SeriesAgents  SeriesKind = "agent"  // runs of a version of an agent
	SeriesModules SeriesKind = "module" // runs that used a module of the tenant
	SeriesModels  SeriesKind = "model"  // tokens of a model
)

// A SeriesPeriod is the length of a bucket of a series.
type SeriesPeriod string

// Lengths of buckets, which start at full hours and days of UTC.
const (
	SeriesHour SeriesPeriod = "hour"
	SeriesDay  SeriesPeriod = "day"
)

// Duration returns the length of the period.
func (p SeriesPeriod) Duration() time.Duration {
	if p == SeriesDay {
		return 24 * time.Hour
	}
	return time.Hour
}

const (
	// maxSeriesRows is the maximum number of rows of a kind that a tenant has in a bucket. Further agents, versions,
	// modules and models are counted together in one row without agent, version and name.
	maxSeriesRows = 200
	// Buckets older than this are deleted when the tenant's next bucket begins.
	maxHourAge = 15 * 24 * time.Hour
	maxDayAge  = 400 * 24 * time.Hour
)

// maxAge returns the age at which buckets of the period are deleted.
func (p SeriesPeriod) maxAge() time.Duration {
	if p == SeriesDay {
		return maxDayAge
	}
	return maxHourAge
}

// classesPerDoubling is the number of classes of latencies between a time and its double.
const classesPerDoubling = 4

// latencyClass returns the class of a latency in milliseconds, from 0.
func latencyClass(ms int64) int64 {
	if ms <= 1 {
		return 0
	}
	return int64(math.Ceil(classesPerDoubling * math.Log2(float64(ms))))
}

// A seriesRow is the part of a finished run that one row of a series counts.
type seriesRow struct {
	kind    SeriesKind
	agent   string
	version int64
	name    string
	counts  SeriesCounts
}

// SeriesCounts are the counts of finished runs.
type SeriesCounts struct {
	Runs             int64
	Failed           int64 // runs that ended with an error
	Canceled         int64
	PromptTokens     int64
	CompletionTokens int64
	CostNano         int64 // billionths of the currency
	Faults           int64 // of the modules of the runs, or of one module
	Denials          int64 // by any gate or person, or by one module
	Calls            int64 // hook calls of the modules, or of one module
	HookMS           int64 // time in hooks of the modules, or of one module
	ActiveMS         int64 // time in which the runs were in progress
}

const seriesColumns = `runs, failed, canceled, prompt_tokens, completion_tokens, cost_nano, faults, denials, calls,
	hook_ms, active_ms`

// fields returns the counts in the order of seriesColumns.
func (c *SeriesCounts) fields() []*int64 {
	return []*int64{&c.Runs, &c.Failed, &c.Canceled, &c.PromptTokens, &c.CompletionTokens, &c.CostNano, &c.Faults,
		&c.Denials, &c.Calls, &c.HookMS, &c.ActiveMS}
}

// add adds other counts.
func (c *SeriesCounts) add(o *SeriesCounts) {
	more := o.fields()
	for i, f := range c.fields() {
		*f += *more[i]
	}
}

// seriesRows returns the rows that a finished run adds to.
func seriesRows(r *journal.RunInfo) []seriesRow {
	counts := SeriesCounts{Runs: 1, PromptTokens: r.Usage.PromptTokens, CompletionTokens: r.Usage.CompletionTokens,
		CostNano: r.CostNano, Faults: r.Faults, Denials: r.Denials, ActiveMS: r.Active.Milliseconds()}
	switch r.FinishReason {
	case abi.RunError:
		counts.Failed = 1
	case abi.RunCanceled:
		counts.Canceled = 1
	}
	m := meter{own: map[string]bool{}}
	for _, p := range r.Modules {
		if p.Digest != "" && p.Ring == hook.Tenant.String() {
			m.own[p.Entry] = true
		}
	}
	modules := map[string]*seriesRow{}
	for i := range r.Stats {
		s := &r.Stats[i]
		counts.Calls += s.Calls
		counts.HookMS += s.WallUS / 1000
		if !m.counts(s) {
			continue
		}
		row := modules[s.Digest]
		if row == nil {
			row = &seriesRow{kind: SeriesModules, name: s.Digest, counts: counts}
			row.counts.Faults, row.counts.Denials = 0, r.Denied[s.Digest]
			row.counts.Calls, row.counts.HookMS = 0, 0
			modules[s.Digest] = row
		}
		row.counts.Faults += s.Faults
		row.counts.Calls += s.Calls
		row.counts.HookMS += s.WallUS / 1000
	}
	rows := []seriesRow{{kind: SeriesAgents, counts: counts}}
	for _, row := range modules {
		rows = append(rows, *row)
	}
	for model, tokens := range r.Models {
		rows = append(rows, seriesRow{kind: SeriesModels, name: model, counts: SeriesCounts{
			Runs: 1, PromptTokens: tokens.PromptTokens, CompletionTokens: tokens.CompletionTokens}})
	}
	for i := range rows {
		rows[i].agent, rows[i].version = r.Agent, r.Version
	}
	slices.SortFunc(rows, func(a, b seriesRow) int { // concurrent transactions lock rows in the same order
		return cmp.Or(strings.Compare(string(a.kind), string(b.kind)), strings.Compare(a.name, b.name))
	})
	return rows
}

// addToSeries adds a finished run to the buckets of the current hour and day.
func (s *store) addToSeries(t scoped, r *journal.RunInfo) error {
	now, err := nowIn(t.tx)
	if err != nil {
		return err
	}
	rows := seriesRows(r)
	for i := range rows {
		if row := &rows[i]; row.kind == SeriesModels && s.cost != nil {
			row.counts.CostNano = max(0, s.cost(row.name, row.counts.PromptTokens, row.counts.CompletionTokens))
		}
	}
	for _, period := range []SeriesPeriod{SeriesDay, SeriesHour} {
		if err := addBucket(t, period, now, rows); err != nil {
			return err
		}
	}
	return nil
}

// addBucket adds rows to the bucket of a period that includes a time. When it begins a bucket, it deletes buckets
// that are older than the maximum age.
func addBucket(t scoped, period SeriesPeriod, now time.Time, rows []seriesRow) error {
	start := now.UTC().Truncate(period.Duration()).UnixMilli()
	counted := map[SeriesKind]int64{}
	for i := range rows {
		kind := rows[i].kind
		if _, known := counted[kind]; known {
			continue
		}
		var n int64
		if err := t.row([]any{&n}, `SELECT count(*) FROM (SELECT 1 FROM run_series
			WHERE tenant = $1 AND period = $2 AND kind = $3 AND start_ms = $4 LIMIT $5) bucket`,
			string(period), string(kind), start, int64(maxSeriesRows)); err != nil {
			return err
		}
		if counted[kind] = n; n > 0 {
			continue
		}
		for _, table := range []string{"run_series", "run_latencies"} {
			if _, err := t.Exec(`DELETE FROM `+table+` WHERE tenant = $1 AND period = $2 AND kind = $3 AND start_ms < $4`,
				string(period), string(kind), start-period.maxAge().Milliseconds()); err != nil {
				return err
			}
		}
	}
	for i := range rows {
		row := rows[i]
		if counted[row.kind] >= maxSeriesRows {
			known, err := row.exists(t, period, start)
			if err != nil {
				return err
			}
			if !known {
				row.agent, row.version, row.name = "", 0, ""
			}
		}
		if err := row.add(t, period, start); err != nil {
			return err
		}
	}
	return nil
}

// exists reports whether a bucket has the row.
func (r *seriesRow) exists(t scoped, period SeriesPeriod, start int64) (bool, error) {
	var n int64
	return database.One(t, `SELECT 1 FROM run_series WHERE tenant = $1 AND period = $2 AND kind = $3 AND start_ms = $4
		AND agent = $5 AND version = $6 AND name = $7`,
		[]any{string(period), string(r.kind), start, r.agent, r.version, r.name}, &n)
}

// addCounts is the statement that adds counts to a row of a bucket.
var addCounts = func() string {
	var values, set []string
	for i, column := range strings.Split(seriesColumns, ",") {
		column = strings.TrimSpace(column)
		values = append(values, fmt.Sprintf("$%d", i+8))
		set = append(set, fmt.Sprintf("%s = run_series.%s + $%d", column, column, i+8))
	}
	return `INSERT INTO run_series (tenant, period, kind, start_ms, agent, version, name, ` + seriesColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, ` + strings.Join(values, ", ") + `)
		ON CONFLICT (tenant, period, kind, start_ms, agent, version, name) DO UPDATE SET ` + strings.Join(set, ", ")
}()

// add adds the row's counts to a bucket and, unless the row counts a model, the latency of the run.
func (r *seriesRow) add(t scoped, period SeriesPeriod, start int64) error {
	args := []any{string(period), string(r.kind), start, r.agent, r.version, r.name}
	for _, f := range r.counts.fields() {
		args = append(args, *f)
	}
	if _, err := t.Exec(addCounts, args...); err != nil || r.kind == SeriesModels {
		return err
	}
	_, err := t.Exec(`INSERT INTO run_latencies (tenant, period, kind, start_ms, agent, version, name, class, runs)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1)
		ON CONFLICT (tenant, period, kind, start_ms, agent, version, name, class)
		DO UPDATE SET runs = run_latencies.runs + 1`,
		string(period), string(r.kind), start, r.agent, r.version, r.name, latencyClass(r.counts.ActiveMS))
	return err
}
