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

// A Composition describes an agent with its middlewares, model and tools.
type Composition struct {
	Entries []Entry
	// Replies are the model's replies: Replies[n-1] is the reply in step n, and the last one is
	// the reply in all further steps. Repeated calls in a step get the same reply.
	Replies []Reply
	// Direct lists the tools whose result ends the run.
	Direct             []string
	MaxSteps           int
	Limits             Limits
	Stream             bool // whether the model's answers and the results of tools arrive in chunks
	ContinueOnError    bool
	ContinueOnResponse bool
	// Kid is an agent that this agent calls as the tool "kid". The arguments of the call are the
	// prompt of Kid's run.
	Kid *Composition
	// Peer is an agent that can take over the conversation and transfer it back. This agent's steps
	// and limits apply to both.
	Peer *Composition
}

// Limits are the call limits of a run; 0 means unlimited. On and OnTool are values of
// agent.OnLimit for model calls and tool calls.
type Limits struct {
	ModelCalls, ToolCalls int
	Plain                 int // maximum number of calls of the tool "plain"
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
	Skip  bool // whether faults of this entry are skipped
	Hooks map[abi.Hook]puppet.Script
}

// A Reply is the model's reply in a step: text, tool calls, or a failure.
type Reply struct {
	Text  string
	Calls []Call
	Fails bool
}

// A Call is a tool call of the model.
type Call struct{ Tool, Arguments string }

// The host's own tools. Puppets can add others.
const (
	plainTool  = "plain"  // returns its name and arguments
	piecesTool = "pieces" // returns its name and arguments, streamed in chunks if possible
	failsTool  = "fails"
	errorsTool = "errors" // returns an error result
	childTool  = "kid"    // runs the sub-agent Kid if the composition has one
	transfer   = agent.TransferTool
)

// tools lists the tools that every agent has.
var tools = []string{plainTool, piecesTool, failsTool, errorsTool}

// The names of agents.
const (
	rootName  = "root"
	childName = "kid"
	peerName  = "peer"
)

// agents returns the composition and all compositions nested in it.
func (c *Composition) agents() []*Composition {
	out := []*Composition{c}
	for _, inner := range []*Composition{c.Kid, c.Peer} {
		if inner != nil {
			out = append(out, inner.agents()...)
		}
	}
	return out
}

// scripts iterates over the scripts of all entries, including those of nested agents.
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

// some reports whether a script of the composition has one of the given actions as its Do.
func (c *Composition) some(what ...string) bool {
	for _, s := range c.scripts {
		if slices.Contains(what, s.Do) {
			return true
		}
	}
	return false
}

// owns reports whether a puppet of the composition calls the model or a tool for itself.
func (c *Composition) owns() bool {
	for _, s := range c.scripts {
		if s.Own != "" {
			return true
		}
	}
	return false
}

// with returns a copy of the composition in which change has replaced each script.
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

// String returns the composition as a Go literal.
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

// String returns the reply's fields as in a Go literal.
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
