package composition

import (
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/internal/composition/puppet"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Shrink returns the smallest composition that it finds by removing parts of c and for which fails
// returns true.
func Shrink(c *Composition, fails func(*Composition) bool) *Composition {
	for again := true; again; {
		again = false
		for _, smaller := range c.smaller() {
			if fails(smaller) {
				c, again = smaller, true
				break
			}
		}
	}
	return c
}

// smaller returns variants of the composition with one part removed or simplified, those with the
// largest reduction first.
func (c *Composition) smaller() []*Composition {
	var out []*Composition
	add := func(change func(*Composition)) {
		n := *c
		n.Entries, n.Replies = slices.Clone(c.Entries), slices.Clone(c.Replies)
		change(&n)
		out = append(out, &n)
	}
	if c.Kid != nil {
		add(func(n *Composition) { n.Kid = nil })
		for _, child := range c.Kid.smaller() {
			add(func(n *Composition) { n.Kid = child })
		}
	}
	if c.Peer != nil {
		add(func(n *Composition) { n.Peer = nil })
		for _, peer := range c.Peer.smaller() {
			add(func(n *Composition) { n.Peer = peer })
		}
	}
	for i := range c.Entries {
		add(func(n *Composition) { n.Entries = slices.Delete(n.Entries, i, i+1) })
	}
	for i := range c.Replies {
		if len(c.Replies) > 1 {
			add(func(n *Composition) { n.Replies = slices.Delete(n.Replies, i, i+1) })
		}
		for j := range c.Replies[i].Calls {
			add(func(n *Composition) { n.Replies[i].Calls = slices.Delete(slices.Clone(n.Replies[i].Calls), j, j+1) })
		}
		if r := c.Replies[i]; r.Text != "" && (r.Calls != nil || r.Text != "a") {
			add(func(n *Composition) {
				if n.Replies[i].Text = "a"; r.Calls != nil {
					n.Replies[i].Text = ""
				}
			})
		}
	}
	if c.MaxSteps > 1 {
		add(func(n *Composition) { n.MaxSteps-- })
	}
	for _, option := range []func(*Composition) *bool{
		func(n *Composition) *bool { return &n.Stream },
		func(n *Composition) *bool { return &n.ContinueOnError },
		func(n *Composition) *bool { return &n.ContinueOnResponse },
	} {
		if *option(c) {
			add(func(n *Composition) { *option(n) = false })
		}
	}
	for _, limits := range c.Limits.smaller() {
		add(func(n *Composition) { n.Limits = limits })
	}
	if c.Direct != nil {
		add(func(n *Composition) { n.Direct = nil })
	}
	for i, e := range c.Entries {
		if e.Skip {
			add(func(n *Composition) { n.Entries[i].Skip = false })
		}
		for _, h := range slices.Sorted(maps.Keys(e.Hooks)) {
			for _, s := range smallerScripts(e.Hooks[h]) {
				add(func(n *Composition) {
					hooks := maps.Clone(e.Hooks)
					if delete(hooks, h); s != nil {
						hooks[h] = *s
					}
					n.Entries[i].Hooks = hooks
				})
			}
		}
	}
	return slices.DeleteFunc(out, func(n *Composition) bool { return !n.whole() })
}

// smaller returns variants of the limits with one or all of them removed.
func (l Limits) smaller() []Limits {
	var out []Limits
	for _, fewer := range []func(*Limits){
		func(l *Limits) { *l = Limits{} }, func(l *Limits) { l.ModelCalls = 0 }, func(l *Limits) { l.ToolCalls = 0 },
		func(l *Limits) { l.Plain = 0 }, func(l *Limits) { l.On = "" }, func(l *Limits) { l.OnTool = "" },
	} {
		n := l
		if fewer(&n); n != l {
			out = append(out, n)
		}
	}
	return out
}

// smallerScripts returns simpler replacements for a script. A nil element removes the script.
func smallerScripts(s puppet.Script) []*puppet.Script {
	out := []*puppet.Script{nil}
	add := func(change func(*puppet.Script)) {
		changed := s
		changed.Next = slices.Clone(s.Next)
		if change(&changed); changed.String() != s.String() {
			out = append(out, &changed)
		}
	}
	add(func(s *puppet.Script) { s.Do = "" })
	add(func(s *puppet.Script) { s.Keep = false })
	add(func(s *puppet.Script) { s.Own = "" })
	add(func(s *puppet.Script) { s.Late = false })
	for i := range s.Next {
		add(func(s *puppet.Script) { s.Next = slices.Delete(s.Next, i, i+1) })
		add(func(s *puppet.Script) { s.Next[i] = "" })
	}
	return out
}

// whole reports whether Generate could have returned the composition: sensible does not change it,
// and every entry that adds a tool has the hook call_tool.
func (c *Composition) whole() bool {
	if c.sensible().String() != c.String() {
		return false
	}
	for _, e := range c.Entries {
		if _, calls := e.Hooks[contract.HookCallTool]; e.Hooks[contract.HookBeforeAgent].Do == puppet.Add && !calls {
			return false
		}
	}
	return true
}
