package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

const (
	// maxScan is the maximum number of runs that a page examines. Fewer than the page's limit may match
	// the filter, and the next page continues after the last run examined.
	maxScan = 5000
	// maxScanBatch is the maximum number of runs that one statement examines.
	maxScanBatch = 1024
	// probeRows is the number of rows of each index that are counted to choose the one to read.
	probeRows = 1000
)

// Runs implements [Store].
func (s *store) Runs(ctx context.Context, f *Filter) (runs []journal.RunInfo, next *Position, err error) {
	if f == nil {
		f = &Filter{}
	}
	err = s.db.View(ctx, func(t database.Tx) (err error) {
		r := newRunReader(t, f)
		runs, next, err = r.page()
		return err
	})
	return runs, next, err
}

// A runReader reads a page of runs. It reads their ids from an index, which has them in the list's
// order, and then the runs of these ids that match the filter.
type runReader struct {
	tx         database.Tx
	filter     *Filter
	source     source
	conditions *conditions
	words      []string // words of the title

	limit   int
	after   *Position // the last run examined, or the position after which the page starts
	from    int64     // lowest creation time, in milliseconds
	to      int64     // highest creation time, in milliseconds
	runs    []journal.RunInfo
	bytes   int // total size of runs in bytes
	scanned int
}

func newRunReader(t database.Tx, f *Filter) *runReader {
	r := &runReader{tx: t, filter: f, words: terms.Words(f.Title), limit: f.Limit, after: f.After}
	if r.limit <= 0 {
		r.limit = defaultPageLimit
	}
	r.from, r.to = f.createdBounds()
	return r
}

// page returns the page, and the position at which it ended if there may be more runs.
func (r *runReader) page() (runs []journal.RunInfo, next *Position, err error) {
	sources, c := r.filter.plan()
	r.conditions = c
	if r.source, err = r.choose(sources); err != nil {
		return nil, nil, err
	}
	for {
		ids, err := r.ids()
		if err != nil || len(ids) == 0 {
			return r.runs, nil, err
		}
		more := len(ids) == r.batch()
		r.scanned += len(ids)
		full, err := r.read(ids)
		if err != nil {
			return nil, nil, err
		}
		if full {
			last := &r.runs[len(r.runs)-1]
			return r.runs, &Position{last.Created, last.ID}, nil
		}
		r.after = &ids[len(ids)-1]
		switch {
		case !more:
			return r.runs, nil, nil
		case r.scanned >= maxScan:
			return r.runs, r.after, nil
		}
	}
}

// selective reports whether the source may have runs that do not match the filter.
func (r *runReader) selective() bool {
	n := len(r.conditions.list)
	if r.source.covers >= 0 {
		n--
	}
	return n > 0 || len(r.words) > 0
}

// batch returns the number of ids that the next statement reads.
func (r *runReader) batch() int {
	n := r.limit - len(r.runs) + 1
	if r.selective() {
		n = max(n, 64, r.scanned)
	}
	return min(n, maxScanBatch)
}

// choose returns the source with the fewest rows. It counts at most probeRows rows of each source.
func (r *runReader) choose(sources []source) (best source, err error) {
	if len(sources) == 1 {
		return sources[0], nil
	}
	fewest := int64(-1)
	for _, s := range sources {
		r.source = s
		sql, args := r.index()
		var n int64
		_, err := database.One(r.tx,
			fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM %s LIMIT $%d) probe`, sql, len(args)+1),
			append(args, int64(probeRows)), &n)
		if err != nil {
			return best, err
		}
		if fewest < 0 || n < fewest {
			best, fewest = s, n
		}
	}
	return best, nil
}

// index returns the FROM and WHERE clauses of a statement that reads the remaining rows of the
// source, with its arguments.
func (r *runReader) index() (sql string, args []any) {
	s := &r.source
	from, to, name := r.from, r.to, ""
	args = []any{r.filter.Tenant}
	bind := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	sql = s.table + ` WHERE tenant = $1`
	if s.where != "" {
		sql += ` AND ` + s.where + ` = ` + bind(s.value)
	}
	if r.filter.Oldest {
		if r.after != nil {
			from, name = max(from, r.after.Created.UnixMilli()), r.after.Name
			if from > r.after.Created.UnixMilli() {
				name = ""
			}
		}
		sql += fmt.Sprintf(` AND (created_ms, %s) > (%s, %s)`, s.key, bind(from), bind(name))
		if to < noBound {
			sql += ` AND created_ms <= ` + bind(to)
		}
		return sql, args
	}
	to++ // with the empty name, excludes all runs of that time
	if r.after != nil && r.after.Created.UnixMilli() < to {
		to, name = r.after.Created.UnixMilli(), r.after.Name
	}
	sql += fmt.Sprintf(` AND (created_ms, %s) < (%s, %s)`, s.key, bind(to), bind(name))
	if from > -noBound {
		sql += ` AND created_ms >= ` + bind(from)
	}
	return sql, args
}

// order returns an ORDER BY clause for a column with the ids of runs.
func (r *runReader) order(key string) string {
	if r.filter.Oldest {
		return ` ORDER BY created_ms, ` + key
	}
	return ` ORDER BY created_ms DESC, ` + key + ` DESC`
}

// ids reads the positions of the next runs from the source.
func (r *runReader) ids() (at []Position, err error) {
	sql, args := r.index()
	err = r.tx.Query(func(scan func(...any) error) error {
		var ms int64
		var p Position
		err := scan(&ms, &p.Name)
		p.Created = time.UnixMilli(ms)
		at = append(at, p)
		return err
	}, `SELECT created_ms, `+r.source.key+` FROM `+sql+r.order(r.source.key)+fmt.Sprintf(` LIMIT $%d`, len(args)+1),
		append(args, int64(r.batch()))...)
	return at, err
}

// read adds the runs at the given positions that match the filter to r.runs. full reports whether the
// page is full although more runs follow.
func (r *runReader) read(at []Position) (full bool, err error) {
	args := []any{r.filter.Tenant}
	var list strings.Builder
	for i := range placeholders(len(at)) {
		if i > 0 {
			list.WriteString(", ")
		}
		args = append(args, at[min(i, len(at)-1)].Name)
		fmt.Fprintf(&list, "$%d", len(args))
	}
	where, more := r.conditions.sql(r.source.covers, len(args)+1)
	args = append(args, more...)
	err = r.tx.Query(func(scan func(...any) error) error {
		if len(r.runs) == r.limit || r.bytes >= maxPageBytes {
			full = true
			return errStop
		}
		size := 0
		info, err := scanRun(func(out ...any) error {
			err := scan(out...)
			size = textSize(out)
			return err
		})
		if err == nil && terms.MatchesTitle(info.Title, r.words) {
			r.runs = append(r.runs, *info)
			r.bytes += size
		}
		return err
	}, `SELECT `+runColumns+` FROM runs WHERE tenant || '' = $1 AND id IN (`+list.String()+`)`+where+r.order("id"), args...)
	if errors.Is(err, errStop) {
		err = nil
	}
	return full, err
}

// placeholders returns the number of parameters of a statement for n ids, which is a power of two, so
// that there are few different statements.
func placeholders(n int) int { return 1 << bits.Len(uint(n-1)) }

// A Filter selects a page of runs that match all of its fields. The zero value selects the newest 100
// runs of the operator.
type Filter struct {
	Tenant string
	Agent  string // name of the agent; empty selects the runs of all agents
	// Version is the version of Agent, which must be set; 0 selects all.
	Version      int64
	Thread       string           // the thread that the runs continue; empty selects the runs of all
	Statuses     []journal.Status // statuses of the runs; none selects all
	FinishReason string           // how the runs ended; empty selects all
	Module       string           // digest of a module of the runs; empty selects all
	// Metadata holds the text of members of the runs' metadata; see [terms.MetadataText].
	Metadata map[string]string
	// Title holds words. Each word must be the beginning of a word in the title of a run. Case is
	// ignored.
	Title string
	// Faults and Denials select runs with (true) or without (false) faults or denied tool calls; nil
	// selects all.
	Faults, Denials *bool
	// CreatedFrom and UpdatedFrom are inclusive bounds, and CreatedTo and UpdatedTo exclusive ones,
	// to the millisecond. A zero time is no bound.
	CreatedFrom, CreatedTo, UpdatedFrom, UpdatedTo time.Time
	Oldest                                         bool // lists the oldest run first
	Page
}

// A source is an index that has runs of a filter in the order of their creation: all runs of a
// tenant, or those with one property. Its columns are created_ms and key.
type source struct {
	table string
	key   string // the column with the run's id
	where string // a condition on the columns of the index besides tenant
	value string // the value in the condition, as its parameter
	// covers is the index of the condition in conditions.list that the source makes redundant, or -1
	// if there is none.
	covers int
}

// A conditions is a list of SQL conditions on rows of runs with their arguments.
type conditions struct {
	list []string
	args []any
}

// add appends a condition, in which each ? is replaced by the parameter of an argument.
func (c *conditions) add(sql string, args ...any) {
	for _, a := range args {
		c.args = append(c.args, a)
		sql = strings.Replace(sql, "?", fmt.Sprintf("#%d#", len(c.args)-1), 1)
	}
	c.list = append(c.list, sql)
}

// sql returns the conditions except number skip, as SQL that follows a WHERE clause, and their
// arguments. Parameters are numbered from first.
func (c *conditions) sql(skip, first int) (text string, args []any) {
	var b strings.Builder
	for i, condition := range c.list {
		if i == skip {
			continue
		}
		for n := range c.args {
			if mark := fmt.Sprintf("#%d#", n); strings.Contains(condition, mark) {
				condition = strings.ReplaceAll(condition, mark, fmt.Sprintf("$%d", first+len(args)))
				args = append(args, c.args[n])
			}
		}
		b.WriteString(" AND " + condition)
	}
	return b.String(), args
}

// plan returns the sources that a filter's runs can be read from, and the conditions on the runs.
// Every run that matches the filter is in each of the sources.
func (f *Filter) plan() (sources []source, c *conditions) {
	c = &conditions{}
	if f.Agent != "" {
		sources = append(sources, source{"runs", "id", "agent", f.Agent, len(c.list)})
		c.add(`agent || '' = ?`, f.Agent) // an expression, so that no index is used for it
	}
	if f.Thread != "" {
		sources = append(sources, source{"runs", "id", "thread <> '' AND thread", f.Thread, len(c.list)})
		c.add(`thread || '' = ?`, f.Thread)
	}
	if n := len(f.Statuses); n == 1 {
		sources = append(sources, source{"runs", "id", "status", string(f.Statuses[0]), len(c.list)})
		c.add(`status || '' = ?`, string(f.Statuses[0]))
	} else if n > 1 {
		var args []any
		for _, s := range f.Statuses {
			args = append(args, string(s))
		}
		c.add(`status || '' IN (?`+strings.Repeat(", ?", n-1)+`)`, args...)
	}
	for _, term := range f.terms() {
		sources = append(sources, source{"run_terms", "run", "term", term, len(c.list)})
		// PostgreSQL would turn EXISTS into a join that reads all runs of the term.
		c.add(`(SELECT 1 FROM run_terms WHERE run_terms.tenant = $1 AND run_terms.term = ?
			AND run_terms.created_ms = runs.created_ms AND run_terms.run = runs.id) = 1`, term)
	}
	for _, word := range terms.Words(f.Title) {
		if len(word) < terms.PrefixLength && word[0] < utf8.RuneSelf { // it has no term
			c.add(`lower(title) LIKE ?`, "%"+word+"%")
		}
	}
	if f.Faults != nil && !*f.Faults {
		c.add(`faults = 0`)
	}
	if f.Denials != nil && !*f.Denials {
		c.add(`denials = 0`)
	}
	if !f.UpdatedFrom.IsZero() {
		c.add(`updated_ms >= ?`, f.UpdatedFrom.UnixMilli())
	}
	if !f.UpdatedTo.IsZero() {
		c.add(`updated_ms < ?`, f.UpdatedTo.UnixMilli())
	}
	if len(sources) == 0 {
		sources = []source{{table: "runs", key: "id", covers: -1}}
	}
	return sources, c
}

// terms returns the terms that every run of the filter has.
func (f *Filter) terms() (list []string) {
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		list = append(list, terms.Metadata(key, f.Metadata[key]))
	}
	list = append(list, terms.OfSearch(f.Title)...)
	if f.Module != "" {
		list = append(list, terms.Module(f.Module))
	}
	if f.Version != 0 {
		list = append(list, terms.Version(f.Agent, f.Version))
	}
	if f.FinishReason != "" {
		list = append(list, terms.FinishReason(f.FinishReason))
	}
	if f.Faults != nil && *f.Faults {
		list = append(list, terms.Faults)
	}
	if f.Denials != nil && *f.Denials {
		list = append(list, terms.Denials)
	}
	return list
}

// noBound is a creation time, in milliseconds, that no run reaches.
const noBound = 1 << 62

// createdBounds returns the lowest and the highest creation time of the filter's runs, in milliseconds.
// Runs are created before they are updated.
func (f *Filter) createdBounds() (from, to int64) {
	from, to = -noBound, noBound
	if !f.CreatedFrom.IsZero() {
		from = f.CreatedFrom.UnixMilli()
	}
	for _, t := range []time.Time{f.CreatedTo, f.UpdatedTo} {
		if !t.IsZero() {
			to = min(to, t.UnixMilli()-1)
		}
	}
	return from, to
}
