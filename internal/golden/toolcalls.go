package golden

import (
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// toolsPart is the Part of a difference if a tool received other arguments than the case states.
const toolsPart = "tools"

// compareTools compares the arguments that tools received with those that the case states, and
// reports whether they differ. Each tool's calls may be in any order, since tools run concurrently.
// A tool result in the host's events without a received call is a difference too.
func (c *Case) compareTools(o *wire.Outcome) (Difference, bool) {
	received := map[string][]string{} // arguments by tool
	for _, call := range o.ToolCalls {
		received[call.Name] = append(received[call.Name], call.Arguments)
	}
	reported := map[string]int{}
	for i := range o.Events {
		countResults(&o.Events[i], reported)
	}
	var want, got []string
	for _, t := range c.Request().Tools {
		calls := received[t.Name]
		stated, free := c.expectedArguments(t.Name, max(len(calls), reported[t.Name]))
		var other []string
		for _, arguments := range calls {
			if stated[arguments]--; stated[arguments] < 0 {
				other = append(other, t.Name+" "+arguments)
			}
		}
		if len(other) <= free && len(calls) >= reported[t.Name] {
			continue
		}
		for _, arguments := range slices.Sorted(maps.Keys(stated)) {
			for range stated[arguments] {
				want = append(want, t.Name+" "+arguments)
			}
		}
		for range free {
			want = append(want, t.Name+" …")
		}
		got = append(got, slices.Sorted(slices.Values(other))...)
	}
	if want == nil && got == nil {
		return Difference{}, false
	}
	return Difference{Part: toolsPart, Want: strings.Join(want, "\n"), Got: strings.Join(got, "\n")}, true
}

// expectedArguments returns what a tool must receive in its first n calls: the number of calls with
// each stated argument text, and the number of calls whose arguments are free.
func (c *Case) expectedArguments(name string, n int) (stated map[string]int, free int) {
	stated = map[string]int{}
	turns := c.arguments[name]
	for i := range n {
		arguments := ""
		if len(turns) > 0 {
			arguments = turns[min(i, len(turns)-1)]
		}
		switch {
		case arguments != "":
			stated[arguments]++
		case c.Strict:
			stated["{}"]++
		default:
			free++
		}
	}
	return stated, free
}

// countResults adds the results that tools returned to results, by tool. It also counts those in
// the events of child runs.
func countResults(e *abi.Event, results map[string]int) {
	if e.Type == abi.EventChild && e.Event != nil {
		countResults(e.Event, results)
	}
	if e.Type == abi.EventToolResult && e.Source == "tool" {
		results[e.Call.Name]++
	}
}
