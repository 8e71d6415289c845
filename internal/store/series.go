package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// MaxSeriesPoints is the maximum number of buckets that a series is read for.
const MaxSeriesPoints = 400

// A SeriesQuery selects the buckets of a series.
type SeriesQuery struct {
	Kind   SeriesKind
	Period SeriesPeriod
	// From and To bound the times of the buckets: the first bucket contains From, and the last one
	// begins before To. There are at most MaxSeriesPoints buckets; earlier ones are omitted.
	From, To time.Time
	// ByAgent, ByVersion and ByName group the rows by agent, by agent and version, and by module or model. If none of
	// them is set, the series has one group.
	ByAgent, ByVersion, ByName bool
	// Agent, Version and Name select rows; empty selects all.
	Agent   string
	Version int64
	Name    string
	// Groups is the maximum number of groups; the default is 20. The groups with the most runs are returned.
	Groups int
}

// A Series is a group of runs with its counts by bucket.
type Series struct {
	Agent   string
	Version int64
	Name    string // digest of a module, or a model
	Total   SeriesPoint
	Points  []SeriesPoint // buckets with runs, in the order of their start
}

// A SeriesPoint holds the counts of a bucket.
type SeriesPoint struct {
	Start time.Time
	SeriesCounts
	latencies map[int64]int64 // runs by latency class
}

// Latency returns the quantile share, such as 0.95, of the times for which the point's runs were in progress. The
// result is an estimate from a histogram, with an error of at most about 19 percent. It is 0 if there are no runs.
func (p *SeriesPoint) Latency(share float64) time.Duration {
	var all int64
	var classes []int64
	for class, n := range p.latencies {
		all += n
		classes = append(classes, class)
	}
	slices.Sort(classes)
	rank := share * float64(all)
	for _, class := range classes {
		n := float64(p.latencies[class])
		if rank <= n {
			exponent := (float64(class) - 1 + rank/n) / classesPerDoubling
			return time.Duration(math.Pow(2, exponent) * float64(time.Millisecond))
		}
		rank -= n
	}
	return 0
}

// Series returns the groups of a series, those with the most runs first. more is the number of
// omitted groups.
func (n *Tenant) Series(ctx context.Context, q *SeriesQuery) (groups []Series, more int, err error) {
	r := seriesReader{query: *q, groups: map[seriesKey]*Series{}}
	length := q.Period.Duration()
	r.query.From = q.From.UTC().Truncate(length)
	if first := q.To.UTC().Add(-MaxSeriesPoints * length).Truncate(length).Add(length); r.query.From.Before(first) {
		r.query.From = first
	}
	err = n.view(ctx, func(t scoped) error {
		if err := r.counts(t); err != nil {
			return err
		}
		return r.latencies(t)
	})
	if err != nil {
		return nil, 0, err
	}
	for _, g := range r.groups {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b Series) int {
		return cmp.Or(cmp.Compare(b.Total.Runs, a.Total.Runs), cmp.Compare(a.Agent, b.Agent),
			cmp.Compare(a.Version, b.Version), cmp.Compare(a.Name, b.Name))
	})
	limit := cmp.Or(q.Groups, 20)
	if len(groups) > limit {
		more, groups = len(groups)-limit, groups[:limit]
	}
	return groups, more, nil
}

type seriesKey struct {
	agent   string
	version int64
	name    string
}

// A seriesReader reads the rows of a series into groups.
type seriesReader struct {
	query  SeriesQuery
	groups map[seriesKey]*Series
}

// from returns the end of a statement that reads the rows of a table in groups. columns lists the
// columns agent, version and name, each of which is empty unless the series is grouped by it. clauses
// has the statement's clauses. extra is another column to group by.
func (r *seriesReader) from(table, extra string) (columns, clauses string, args []any) {
	q := &r.query
	group := []string{"start_ms"}
	pick := func(by bool, column, empty string) string {
		if !by {
			return empty
		}
		group = append(group, column)
		return column
	}
	columns = "start_ms, " + pick(q.ByAgent || q.ByVersion, "agent", "''") + ", " +
		pick(q.ByVersion, "version", "CAST(0 AS BIGINT)") + ", " + pick(q.ByName, "name", "''")
	if extra != "" {
		group = append(group, extra)
		columns += ", " + extra
	}
	clauses = ` FROM ` + table + ` WHERE tenant = $1 AND period = $2 AND kind = $3 AND start_ms >= $4 AND start_ms < $5`
	args = []any{string(q.Period), string(q.Kind), q.From.UnixMilli(), q.To.UnixMilli()}
	where := func(column string, value any) {
		args = append(args, value)
		clauses += fmt.Sprintf(" AND %s = $%d", column, len(args)+1)
	}
	if q.Agent != "" {
		where("agent", q.Agent)
	}
	if q.Version != 0 {
		where("version", q.Version)
	}
	if q.Name != "" {
		where("name", q.Name)
	}
	return columns, clauses + " GROUP BY " + strings.Join(group, ", ") + " ORDER BY start_ms", args
}

// counts reads the counts of all groups.
func (r *seriesReader) counts(t scoped) error {
	var sums []string
	for _, column := range strings.Split(seriesColumns, ",") {
		sums = append(sums, fmt.Sprintf("CAST(sum(%s) AS BIGINT)", strings.TrimSpace(column)))
	}
	columns, clauses, args := r.from("run_series", "")
	return t.Query(func(scan func(...any) error) error {
		var start int64
		var k seriesKey
		var p SeriesPoint
		out := []any{&start, &k.agent, &k.version, &k.name}
		for _, f := range p.fields() {
			out = append(out, f)
		}
		if err := scan(out...); err != nil {
			return err
		}
		g := r.groups[k]
		if g == nil {
			g = &Series{Agent: k.agent, Version: k.version, Name: k.name}
			r.groups[k] = g
		}
		p.Start = time.UnixMilli(start).UTC()
		g.Points = append(g.Points, p)
		g.Total.add(&p.SeriesCounts)
		return nil
	}, `SELECT `+columns+`, `+strings.Join(sums, ", ")+clauses, args...)
}

// latencies reads the histograms of the groups that counts has read.
func (r *seriesReader) latencies(t scoped) error {
	columns, clauses, args := r.from("run_latencies", "class")
	next := map[seriesKey]int{} // by group, the index of the first point that the next row can belong to
	return t.Query(func(scan func(...any) error) error {
		var start, class, runs int64
		var k seriesKey
		if err := scan(&start, &k.agent, &k.version, &k.name, &class, &runs); err != nil {
			return err
		}
		g := r.groups[k]
		if g == nil {
			return nil
		}
		for next[k] < len(g.Points) && g.Points[next[k]].Start.UnixMilli() < start {
			next[k]++
		}
		if next[k] == len(g.Points) {
			return nil
		}
		for _, p := range []*SeriesPoint{&g.Points[next[k]], &g.Total} {
			if p.latencies == nil {
				p.latencies = map[int64]int64{}
			}
			p.latencies[class] += runs
		}
		return nil
	}, `SELECT `+columns+`, CAST(sum(runs) AS BIGINT)`+clauses, args...)
}
