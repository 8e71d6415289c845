package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

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
	// Metadata holds the text of members of the runs' metadata; see [MetadataText].
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
	for _, word := range words(f.Title) {
		if len(word) < prefixLength && word[0] < utf8.RuneSelf { // it has no term
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
func (f *Filter) terms() (terms []string) {
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		terms = append(terms, metadataTerm(key, f.Metadata[key]))
	}
	terms = append(terms, searchTerms(f.Title)...)
	if f.Module != "" {
		terms = append(terms, moduleTerm(f.Module))
	}
	if f.Version != 0 {
		terms = append(terms, versionTerm(f.Agent, f.Version))
	}
	if f.FinishReason != "" {
		terms = append(terms, reasonTerm(f.FinishReason))
	}
	if f.Faults != nil && *f.Faults {
		terms = append(terms, faultsTerm)
	}
	if f.Denials != nil && *f.Denials {
		terms = append(terms, denialsTerm)
	}
	return terms
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
