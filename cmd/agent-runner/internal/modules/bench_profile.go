package modules

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/pprof/profile"

	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/symbol"
)

// shownFunctions is the maximum number of functions in the table of a profile.
const shownFunctions = 15

// A functionRow is the usage of one function, summed over all call stacks.
type functionRow struct {
	Function string `json:"function"`
	Calls    int64  `json:"calls"`
	Fuel     int64  `json:"fuel"`
	Together int64  `json:"fuel_with_callees"`
}

// functionRows returns the usage of each function in a profile, in descending order of fuel.
func functionRows(samples []sandbox.ProfileSample) []functionRow {
	rows := map[string]*functionRow{}
	row := func(name string) *functionRow {
		if rows[name] == nil {
			rows[name] = &functionRow{Function: name}
		}
		return rows[name]
	}
	for _, s := range samples {
		own := row(s.Stack[0])
		own.Calls += s.Calls
		own.Fuel += s.Fuel
		for i, name := range s.Stack {
			if !slices.Contains(s.Stack[:i], name) { // count a recursive function once per stack
				row(name).Together += s.Fuel
			}
		}
	}
	all := make([]functionRow, 0, len(rows))
	for _, r := range rows {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b functionRow) int {
		return cmp.Or(cmp.Compare(b.Fuel, a.Fuel), cmp.Compare(b.Together, a.Together), cmp.Compare(a.Function, b.Function))
	})
	return all
}

// readable demangles the names of Rust and C++ functions in samples.
func readable(samples []sandbox.ProfileSample) {
	for _, s := range samples {
		for i, name := range s.Stack {
			s.Stack[i] = symbol.Readable(name)
		}
	}
}

// functionsText formats the functions that used the most fuel as a table.
func functionsText(rows []functionRow, runs int) string {
	var all int64
	for _, r := range rows {
		all += r.Fuel
	}
	if all == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d fuel of %d runs, by function\n", all, runs)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "fuel\t\twith callees\t\tcalls\t  function")
	for _, r := range rows[:min(len(rows), shownFunctions)] {
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%d\t  %s\n", r.Fuel, percent(r.Fuel, all), r.Together, percent(r.Together, all),
			r.Calls, r.Function)
	}
	_ = w.Flush()
	if more := len(rows) - shownFunctions; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	if !slices.ContainsFunc(rows, func(r functionRow) bool { return !strings.HasPrefix(r.Function, "$") }) {
		fmt.Fprintln(&b, "The module has no function names: pass its source folder, or build it without stripping.")
	}
	return b.String()
}

func percent(part, all int64) string { return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(all)) }

// writeProfile writes a profile in pprof format.
func writeProfile(path string, samples []sandbox.ProfileSample) error {
	p := &profile.Profile{
		SampleType:        []*profile.ValueType{{Type: "calls", Unit: "count"}, {Type: "fuel", Unit: "count"}},
		DefaultSampleType: "fuel",
	}
	at := map[string]*profile.Location{}
	location := func(name string) *profile.Location {
		l := at[name]
		if l == nil {
			id := uint64(len(at) + 1)
			l = &profile.Location{
				ID:   id,
				Line: []profile.Line{{Function: &profile.Function{ID: id, Name: name, SystemName: name}}},
			}
			at[name] = l
		}
		return l
	}
	for _, s := range samples {
		sample := &profile.Sample{Value: []int64{s.Calls, s.Fuel}, Label: map[string][]string{"export": {s.Export}}}
		for _, name := range s.Stack {
			sample.Location = append(sample.Location, location(name))
		}
		p.Sample = append(p.Sample, sample)
	}
	p.Location = slices.SortedFunc(maps.Values(at), func(a, b *profile.Location) int { return cmp.Compare(a.ID, b.ID) })
	for _, l := range p.Location {
		p.Function = append(p.Function, l.Line[0].Function)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = p.Write(file)
	return cmp.Or(err, file.Close())
}
