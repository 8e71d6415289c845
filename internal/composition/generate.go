package composition

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// actions lists the actions of puppets by hook, in addition to fail, fault, stop and pause. Hooks
// that edit the state and are not listed have the actions edit and insert.
var actions = map[abi.Hook][]string{
	contract.HookBeforeAgent: {
		puppet.Edit, puppet.Insert, puppet.Drop, puppet.Add, puppet.Add, puppet.Direct, puppet.Answer,
	},
	contract.HookBeforeModelRewriteState: {puppet.Edit, puppet.Insert, puppet.Fewer},
	contract.HookBeforeModel:             {puppet.Insert, puppet.Insert, puppet.Answer},
	contract.HookWrapModel:               {"", "", puppet.Edit, puppet.Edit, puppet.Answer},
	contract.HookOnChunk:                 {puppet.Edit, puppet.Edit, puppet.Edit, puppet.Drop},
	contract.HookAfterModel:              {puppet.Edit, puppet.Answer, puppet.Error, puppet.Again, puppet.Again},
	contract.HookAfterModelRewriteState:  {puppet.Edit, puppet.Edit, puppet.Insert},
	contract.HookBeforeTool:              {puppet.Edit, puppet.Edit, puppet.Answer},
	contract.HookWrapToolCall:            {"", "", puppet.Edit, puppet.Edit, puppet.Answer},
	contract.HookGateTool:                {puppet.Allow, puppet.Allow, puppet.Allow, puppet.Deny, ""},
	contract.HookCallTool:                {puppet.Answer},
	contract.HookAfterTool:               {puppet.Edit, puppet.Answer, puppet.Error, puppet.Again, puppet.Again},
	contract.HookToolMessages:            {"", puppet.Edit, puppet.Insert},
	contract.HookAfterAgent:              {puppet.Edit},
}

// A repertoire is a hook of puppets with its possible actions.
type repertoire struct {
	hook abi.Hook
	does []string
}

// hooks lists the hooks of puppets: all except observe and the hooks that translate events.
var hooks = func() (out []repertoire) {
	for _, row := range abitable.Hooks() {
		name := abi.Hook(row.Name)
		switch does := actions[name]; {
		case does != nil:
			out = append(out, repertoire{name, does})
		case row.Has(abitable.Edits):
			out = append(out, repertoire{name, []string{puppet.Edit, puppet.Insert}})
		case row.During != "load" && row.During != "event" && row.During != "client":
			panic("puppets have no actions in " + row.Name)
		}
	}
	return out
}()

// mayPause reports whether the answer of hook h can interrupt a run with Control. Gates interrupt
// with the decision ask.
func mayPause(h abi.Hook) bool {
	return h != contract.HookOnChunk && h != contract.HookToolMessages && h != contract.HookAfterAgent &&
		h != contract.HookGateTool
}

// A generator makes the random choices of [Generate].
type generator struct{ *rand.Rand }

// Generate returns the composition for a seed. It returns the same composition for the same seed.
func Generate(seed uint64) *Composition {
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	faults := g.IntN(3) // 0 none, 1 some, 2 more
	pauses := g.IntN(3) == 0
	if g.IntN(3) > 0 {
		return g.composition("m", 1+g.IntN(6), faults, pauses, g.IntN(4) == 0).sensible()
	}
	faults = max(0, faults-1) // fewer faults, so that runs with a sub-agent last longer
	c := g.composition("m", 1+g.IntN(3), faults, pauses, g.IntN(4) == 0)
	c.Peer = g.composition("p", 1+g.IntN(2), faults, pauses, false)
	c.Peer.MaxSteps, c.Peer.Limits = 0, Limits{}
	c.MaxSteps += 3
	g.transfers(c, peerName)
	g.transfers(c.Peer, rootName)
	return c.sensible()
}

// transfers adds tool calls to the replies of c that transfer the conversation. Nearly all of them
// name the given agent; the others name an agent that does not exist.
func (g generator) transfers(c *Composition, to string) {
	for i := range c.Replies {
		r := &c.Replies[i]
		if g.IntN(4) == 0 {
			continue
		}
		r.Fails = false
		for range []int{1, 1, 1, 2}[g.IntN(4)] {
			name := []string{to, to, to, to, to, to, "nobody"}[g.IntN(7)]
			r.Calls = slices.Insert(r.Calls, g.IntN(len(r.Calls)+1), Call{transfer, fmt.Sprintf(`{"agent":%q}`, name)})
		}
	}
}

// composition returns a random composition with the given number of entries. The entries' names
// begin with prefix. faults is the probability of a fault in tenths. pauses allows hooks to
// interrupt the run. parent allows a kid.
func (g generator) composition(prefix string, entries, faults int, pauses, parent bool) *Composition {
	c := &Composition{
		MaxSteps:           1 + g.IntN(4),
		Stream:             g.IntN(2) == 0,
		ContinueOnError:    g.IntN(5) == 0,
		ContinueOnResponse: g.IntN(5) == 0,
	}
	if parent {
		c.Kid = g.composition("k", 1+g.IntN(2), faults, pauses, false)
	}
	for i := range entries {
		c.Entries = append(c.Entries, g.entry(prefix, i, faults, pauses))
	}
	if g.IntN(3) == 0 {
		g.own(c)
	}
	slices.SortStableFunc(c.Entries, func(a, b Entry) int { return a.Ring - b.Ring })
	for range 1 + g.IntN(4) {
		c.Replies = append(c.Replies, g.reply(c))
	}
	if g.IntN(5) == 0 {
		c.Direct = []string{plainTool}
	}
	if g.IntN(3) == 0 {
		c.Limits = g.limits()
	}
	return c
}

// limits returns random call limits.
func (g generator) limits() Limits {
	l := Limits{On: []string{"", "end", "answer"}[g.IntN(3)], OnTool: []string{"", "end", "answer", "refuse"}[g.IntN(4)]}
	for _, limit := range []*int{&l.ModelCalls, &l.ToolCalls, &l.Plain} {
		*limit = max(0, g.IntN(8)-3)
	}
	return l
}

// entry returns random entry number i, whose name is prefix and i. The other parameters are those
// of composition.
func (g generator) entry(prefix string, i, faults int, pauses bool) Entry {
	e := Entry{Name: fmt.Sprint(prefix, i), Ring: g.IntN(rings), Skip: g.IntN(2) == 0, Hooks: map[abi.Hook]puppet.Script{}}
	for _, h := range hooks {
		if g.IntN(3) > 0 {
			continue
		}
		s := puppet.Script{Do: h.does[g.IntN(len(h.does))], Keep: g.IntN(4) == 0}
		switch {
		case g.IntN(10) < faults:
			s.Do = []string{puppet.Fail, puppet.Fault, puppet.Fault, puppet.Stop}[g.IntN(4)]
			s.Late = h.hook == contract.HookOnChunk && g.IntN(4) > 0
		case pauses && g.IntN(3) == 0 && mayPause(h.hook):
			s.Do = puppet.Pause
		case pauses && g.IntN(2) == 0 && h.hook == contract.HookGateTool:
			s.Do = puppet.Ask
		}
		if h.hook == contract.HookWrapModel || h.hook == contract.HookWrapToolCall {
			for range []int{0, 1, 1, 1, 1, 2}[g.IntN(6)] {
				s.Next = append(s.Next, []string{"", "", fmt.Sprintf("for %s", e.Name), puppet.Read}[g.IntN(4)])
			}
		}
		e.Hooks[h.hook] = s
	}
	if s, has := e.Hooks[contract.HookBeforeAgent]; has && s.Do == puppet.Add {
		if _, has := e.Hooks[contract.HookCallTool]; !has {
			e.Hooks[contract.HookCallTool] = puppet.Script{Do: puppet.Answer}
		}
	}
	return e
}

// own makes hooks of one entry of c call the model or a tool for themselves. If several entries did
// so, each of their calls would pass the hooks of the others.
func (g generator) own(c *Composition) {
	e := &c.Entries[g.IntN(len(c.Entries))]
	for _, h := range slices.Sorted(maps.Keys(e.Hooks)) {
		if never := h == contract.HookBeforeAgent || h == contract.HookOnChunk || h == contract.HookToolMessages ||
			h == contract.HookAfterAgent; never ||
			g.IntN(2) == 0 {
			continue // no tools are available before a step, and the other hooks cannot pause
		}
		s := e.Hooks[h]
		if s.Own = puppet.OwnTool; !ofTool(h) && g.IntN(2) == 0 {
			s.Own = puppet.OwnModel // the reports of hooks of model calls have no tool call
		}
		e.Hooks[h] = s
	}
}

// reply returns a random reply of c's model.
func (g generator) reply(c *Composition) Reply {
	switch g.IntN(8) {
	case 0:
		return Reply{Fails: true}
	case 1, 2:
		return Reply{Text: "a tale @%^*$ "}
	}
	r := Reply{}
	if g.IntN(2) == 0 {
		r.Text = "I look @"
	}
	names := append([]string{"nothing"}, tools...)
	for _, e := range c.Entries {
		names = append(names, puppet.Tool(e.Name))
	}
	if c.Kid != nil {
		names = append(names, childTool, childTool, childTool)
	}
	for range 1 + g.IntN(3) {
		r.Calls = append(r.Calls, Call{names[g.IntN(len(names))], []string{"{}", "{}", `{"a":"@"}`, "", "{"}[g.IntN(5)]})
	}
	return r
}

// sensible removes actions whose effect the contract leaves open or that an account cannot show.
func (c *Composition) sensible() *Composition {
	pauses := c.some(puppet.Pause, puppet.Ask)
	drops := c.some(puppet.Drop)
	own := false
	for _, s := range c.scripts {
		own = own || s.Own == puppet.OwnTool
	}
	out := c.with(func(h abi.Hook, s puppet.Script) puppet.Script {
		switch {
		case len(s.Next) > 1 && slices.Contains(s.Next, puppet.Read): // the answer is assembled from all sent chunks
			s.Next = []string{puppet.Read}
		case drops && s.Do == puppet.Fewer,
			own && h == contract.HookBeforeAgent && s.Do == puppet.Drop: // Drop removes a tool that others need
			s.Do = ""
		}
		// A hook that is called again after a pause counts twice, and on_chunk would count chunks.
		// A wrapper that passes on an error fails, so that its count is discarded.
		s.Keep = s.Keep && !pauses && h != contract.HookOnChunk && !slices.Contains(s.Next, puppet.Read)
		return s
	})
	if pauses && (c.Kid != nil || c.owns() && c.parallel()) {
		for _, a := range out.agents() {
			a.Limits = Limits{} // the order of calls determines which of them exceeds a limit
		}
	}
	return out
}

// parallel reports whether a reply of the model has several calls.
func (c *Composition) parallel() bool {
	for _, a := range c.agents() {
		if slices.ContainsFunc(a.Replies, func(r Reply) bool { return len(r.Calls) > 1 }) {
			return true
		}
	}
	return false
}
