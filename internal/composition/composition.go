package composition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
)

// A Composition is an agent with its middlewares, model and tools, as data.
type Composition struct {
	Entries []Entry
	// Replies are the model's: that of step n is Replies[n-1], the last for all
	// steps behind them. However often a step asks, it gets the same.
	Replies []Reply
	// Direct are the tools that end the run with their result.
	Direct             []string
	MaxSteps           int
	Limits             Limits
	Stream             bool // the model's answers and a tool's results come in pieces
	ContinueOnError    bool
	ContinueOnResponse bool
	// Kid is an agent that is the tool "kid" of this one: a call's arguments are what it is asked.
	Kid *Composition
	// Peer is an agent that this one hands the conversation over to, and that hands it
	// back; steps and limits are this one's.
	Peer *Composition
}

// Limits are those of a run's calls; 0: none. Their values are agent.OnLimit's.
type Limits struct {
	ModelCalls, ToolCalls int
	Plain                 int // calls of the tool "plain"
	On, OnTool            string
}

// The rings by number, from outside in.
const (
	Outer = iota
	Tenant
	Inner
	rings
)

// An Entry is a puppet in the chain.
type Entry struct {
	Name  string
	Ring  int
	Skip  bool // its faults are skipped
	Hooks map[abi.Hook]puppet.Script
}

// A Reply is what the model says in a step: a text, calls of tools, or that it failed.
type Reply struct {
	Text  string
	Calls []Call
	Fails bool
}

// A Call is the model's call of a tool.
type Call struct{ Tool, Arguments string }

// The tools that there are, beside those that puppets add.
const (
	plainTool  = "plain"  // says its arguments
	piecesTool = "pieces" // says its arguments, in pieces where it may
	failsTool  = "fails"
	errorsTool = "errors" // gives an error result
	kidTool    = "kid"    // is an agent, where there is one
	transfer   = agent.TransferTool
)

// tools are the names of the tools that there are.
var tools = []string{plainTool, piecesTool, failsTool, errorsTool}

// The names of agents.
const (
	rootName = "root"
	kidName  = "kid"
	peerName = "peer"
)

// agents are the composition, and those inside of it.
func (c *Composition) agents() []*Composition {
	out := []*Composition{c}
	for _, inner := range []*Composition{c.Kid, c.Peer} {
		if inner != nil {
			out = append(out, inner.agents()...)
		}
	}
	return out
}

// scripts are those of all entries, also of the kid's.
func (c *Composition) scripts(yield func(abi.Hook, puppet.Script) bool) {
	for _, c := range c.agents() {
		for _, e := range c.Entries {
			for h, s := range e.Hooks {
				if !yield(h, s) {
					return
				}
			}
		}
	}
}

// some reports whether a script of the composition does one of some things.
func (c *Composition) some(what ...string) bool {
	for _, s := range c.scripts {
		if slices.Contains(what, s.Do) {
			return true
		}
	}
	return false
}

// owns reports whether an entry makes calls of its own.
func (c *Composition) owns() bool {
	for _, s := range c.scripts {
		if s.Own != "" {
			return true
		}
	}
	return false
}

// with returns the composition with other scripts: those that change returns.
func (c *Composition) with(change func(abi.Hook, puppet.Script) puppet.Script) *Composition {
	out := *c
	if c.Kid != nil {
		out.Kid = c.Kid.with(change)
	}
	if c.Peer != nil {
		out.Peer = c.Peer.with(change)
	}
	out.Entries = slices.Clone(c.Entries)
	for i, e := range out.Entries {
		hooks := map[abi.Hook]puppet.Script{}
		for h, s := range e.Hooks {
			hooks[h] = change(h, s)
		}
		out.Entries[i].Hooks = hooks
	}
	return &out
}

// String is the composition as a Go literal.
func (c *Composition) String() string {
	var b strings.Builder
	b.WriteString("{\n\tEntries: []Entry{\n")
	for _, e := range c.Entries {
		fmt.Fprintf(&b, "\t\t{Name: %q, Ring: %s", e.Name, [...]string{"Outer", "Tenant", "Inner"}[e.Ring])
		if e.Skip {
			b.WriteString(", Skip: true")
		}
		b.WriteString(", Hooks: map[abi.Hook]puppet.Script{\n")
		for _, h := range slices.Sorted(maps.Keys(e.Hooks)) {
			fmt.Fprintf(&b, "\t\t\t%q: {%s},\n", h, e.Hooks[h])
		}
		b.WriteString("\t\t}},\n")
	}
	b.WriteString("\t},\n\tReplies: []Reply{\n")
	for _, r := range c.Replies {
		fmt.Fprintf(&b, "\t\t{%s},\n", r)
	}
	b.WriteString("\t},\n")
	if len(c.Direct) > 0 {
		fmt.Fprintf(&b, "\tDirect: %#v,\n", c.Direct)
	}
	fmt.Fprintf(&b, "\tMaxSteps: %d,\n", c.MaxSteps)
	if c.Limits != (Limits{}) {
		b.WriteString("\tLimits: " + strings.TrimPrefix(fmt.Sprintf("%#v", c.Limits), "composition.") + ",\n")
	}
	for _, option := range []struct {
		name string
		set  bool
	}{{"Stream", c.Stream}, {"ContinueOnError", c.ContinueOnError}, {"ContinueOnResponse", c.ContinueOnResponse}} {
		if option.set {
			fmt.Fprintf(&b, "\t%s: true,\n", option.name)
		}
	}
	if c.Kid != nil {
		b.WriteString("\tKid: &Composition" + strings.ReplaceAll(c.Kid.String(), "\n", "\n\t") + ",\n")
	}
	if c.Peer != nil {
		b.WriteString("\tPeer: &Composition" + strings.ReplaceAll(c.Peer.String(), "\n", "\n\t") + ",\n")
	}
	b.WriteString("}")
	return b.String()
}

// String is the reply's fields, as in a Go literal.
func (r Reply) String() string {
	var f []string
	if r.Text != "" {
		f = append(f, fmt.Sprintf("Text: %q", r.Text))
	}
	if r.Calls != nil {
		calls := make([]string, len(r.Calls))
		for i, c := range r.Calls {
			calls[i] = fmt.Sprintf("{%q, %q}", c.Tool, c.Arguments)
		}
		f = append(f, "Calls: []Call{"+strings.Join(calls, ", ")+"}")
	}
	if r.Fails {
		f = append(f, "Fails: true")
	}
	return strings.Join(f, ", ")
}
