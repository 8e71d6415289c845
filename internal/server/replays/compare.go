package replays

import (
	"cmp"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/rerun"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/runs"
)

// Limits on the details of one run.
const (
	maxChanges = 50
	maxHooks   = 50
)

// compare returns the result of a run from its two replays. It hides the operator's modules, and the
// content that they add to requests.
func compare(own, other *rerun.Pass, hide *runs.Redactor) *api.ReplayedRun {
	view := rerun.View{HideRequests: hide.HidesAny(), Entry: func(entry string) string {
		if hide.Has("", entry) {
			return agents.OperatorName
		}
		return agents.Unpinned(entry)
	}, Event: func(e *abi.Event) *abi.Event {
		if e = hide.Event(e); e == nil {
			return nil
		}
		out := *e
		for _, name := range []*string{&out.Entry, &out.Source, &out.StoppedBy} {
			*name = agents.Unpinned(*name)
		}
		return &out
	}}
	diff := rerun.Compare(own, other, view)
	out := &api.ReplayedRun{Reason: hide.Text(diff.Note)}
	var before, after *abi.Event
	out.Before, before = figures(own, hide)
	out.After, after = figures(other, hide)
	switch {
	case !diff.Reproduced:
		out.Outcome = skipped
		return out
	case out.After.Faults > out.Before.Faults, errored(after) && !errored(before):
		out.Outcome = failed
	case diff.Note != "", slices.ContainsFunc(diff.Lines, asksOtherwise):
		out.Outcome = diverged
	case diff.Differs():
		out.Outcome = different
	default:
		out.Outcome = same
	}
	out.Changes = changes(diff.Lines, hide)
	if n := len(out.Changes); n > maxChanges {
		end := out.Changes[n-1] // the end of the run, if it differs
		out.Omitted, out.Changes = int64(n-maxChanges), append(out.Changes[:maxChanges-1], end)
	}
	out.Hooks = hooks(own, other, hide)
	return out
}

// errored reports whether a run ended with an error.
func errored(e *abi.Event) bool { return e != nil && e.Error != nil }

// asksOtherwise reports whether a line is a request to the model that only one of the replays has.
func asksOtherwise(l rerun.Line) bool { return l.Differs() && l.Kind == rerun.KindRequest }

// changes returns the lines that differ. A line of one replay and a following line of the other
// replay are one change if they have the same kind.
func changes(lines []rerun.Line, hide *runs.Redactor) (out []api.ReplayChange) {
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		if !l.Differs() {
			continue
		}
		c := api.ReplayChange{Kind: string(l.Kind), Step: int64(l.Step)}
		if l.Op == "+" {
			c.After = hide.Text(l.Text)
			out = append(out, c)
			continue
		}
		c.Before = hide.Text(l.Text)
		if i+1 < len(lines) && lines[i+1].Op == "+" && lines[i+1].Kind == l.Kind {
			i++
			c.After = hide.Text(lines[i].Text)
		}
		out = append(out, c)
	}
	return out
}

// hooks returns the hooks whose calls differ, ordered by step, entry and hook, at most maxHooks.
func hooks(own, other *rerun.Pass, hide *runs.Redactor) (out []api.ReplayHook) {
	before, after := unpinned(own.Hooks(), hide), unpinned(other.Hooks(), hide)
	add := func(at rerun.HookCall) {
		was, is := cmp.Or(before[at], &rerun.HookCost{}), cmp.Or(after[at], &rerun.HookCost{})
		if !was.Differs(is) {
			return
		}
		out = append(out, api.ReplayHook{
			Step: int64(at.Step), Entry: at.Entry, Hook: string(at.Hook), Before: hookFigures(was), After: hookFigures(is),
			ChangedAnswers: was.ChangedAnswers(is), ChangedTexts: was.ChangedTexts(is)})
	}
	for at := range before {
		add(at)
	}
	for at := range after {
		if before[at] == nil {
			add(at)
		}
	}
	slices.SortFunc(out, func(a, b api.ReplayHook) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Hook, b.Hook))
	})
	return out[:min(len(out), maxHooks)]
}

func hookFigures(c *rerun.HookCost) api.HookFigures {
	f := api.HookFigures{
		Calls:  int64(c.Calls),
		Failed: int64(c.Failed),
		Faults: int64(c.Faults),
		Fuel:   c.Fuel,
		Texts:  c.Texts,
	}
	for d, n := range c.Decisions {
		if f.Decisions == nil {
			f.Decisions = map[string]int64{}
		}
		f.Decisions[string(d)] = n
	}
	return f
}

// unpinned returns the costs of the hooks that tenants may see. It removes versions from the names of
// entries, so that the versions of a module are compared with each other. Entries whose names would
// be equal keep their names.
func unpinned(costs map[rerun.HookCall]*rerun.HookCost, hide *runs.Redactor) map[rerun.HookCall]*rerun.HookCost {
	entries := map[string]string{} // by name without a version; empty if there are several
	for at := range costs {
		name := agents.Unpinned(at.Entry)
		if known, ok := entries[name]; ok && known != at.Entry {
			entries[name] = ""
		} else {
			entries[name] = at.Entry
		}
	}
	out := map[rerun.HookCall]*rerun.HookCost{}
	for at, cost := range costs {
		if hide.Has("", at.Entry) {
			continue
		}
		if name := agents.Unpinned(at.Entry); entries[name] == at.Entry {
			at.Entry = name
		}
		out[at] = cost
	}
	return out
}
