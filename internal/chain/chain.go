// Package chain calls an agent's middlewares in their order: pipelines,
// onions, gates and observers, ring by ring. It knows middlewares by an
// interface only, and the agent's loop not at all.
//
//	model call, ring by ring:  before_model → wrap_model( the next ring … → model ) → on_chunk → after_model
//	tool call,  ring by ring:  before_tool → wrap_tool_call( the next ring … → every gate_tool of every ring → tool ) → on_chunk → after_tool
//
// Within a ring pipelines run in registration order, and the first onion
// registered is the outermost. What a ring hands outward passes on_chunk and
// the after hooks of that ring and of every ring outside it, whoever made it.
package chain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// A Chain is a list of entries, in the order of their registration. Many
// runs use it at once.
type Chain struct {
	Options
	entries  []Entry
	breakers []*breaker // of the entries
	scope    string     // of run-local values
	plans    []plan     // of the entries
	places   places     // of the entries in the lists of their hooks
}

// A plan is what is known of an entry before it runs.
type plan struct {
	desc   Description
	hooks  map[abi.Hook]bool
	events map[abi.EventType]bool // that observe wants
	owner  local.Owner            // of its run-local values
}

func (e *Entry) plan() plan {
	p := plan{desc: e.Middleware.Describe(), hooks: map[abi.Hook]bool{}, owner: e.owner("")}
	for _, h := range p.desc.Hooks {
		p.hooks[h] = e.Hooks == nil || slices.Contains(e.Hooks, h)
	}
	if p.hooks[abi.HookObserve] {
		p.events = e.observes(p.desc.Events)
	}
	return p
}

// ringNames are the names of the rings from the inside out.
var ringNames = []string{Inner.String(), Tenant.String(), Outer.String()}

// owner returns the owner of the entry's run-local values in a chain of that scope.
func (e *Entry) owner(scope string) local.Owner {
	return local.NewOwner(scope, e.Name, ringNames[Inner-e.Ring:]...)
}

// Options are for the pipelines of before_* and after_* hooks.
type Options struct {
	// ContinueOnError lets the rest of a pipeline run after a hook that
	// failed; the first error is reported at the end.
	ContinueOnError bool
	// ContinueOnResponse lets the rest of a before pipeline run after a hook
	// that answered; the last answer counts, and an error beats it.
	ContinueOnResponse bool
	// Values keep the durable values of entries, for Tenant; nil: there are none.
	Values Values
	Tenant string
	// HTTP sends requests of middlewares; nil: none are sent.
	HTTP HTTP
	// Tracer is told of hooks, and by the agent of the rest; nil: nobody is.
	Tracer tracing.Tracer
}

// With returns the chain with other options.
func (c *Chain) With(o Options) *Chain {
	return &Chain{o, c.entries, c.breakers, c.scope, c.plans, c.places}
}

// Join returns the chain with the entries of another: in each ring those of c
// come first, and then those of o, in their order. So those of c are the outer
// ones, and see first what goes in; who is to see last what comes out is in a
// ring further out. The options are those of c, but for Values and Tenant, and
// HTTP, where o has them. It fails if two entries have the same name.
func (c *Chain) Join(o *Chain) (*Chain, error) {
	joined, err := New(slices.Concat(c.entries, o.entries)...)
	if err != nil {
		return nil, err
	}
	joined = joined.Scoped(c.scope)
	joined.Options = c.Options
	joined.breakers = slices.Concat(c.breakers, o.breakers)
	if o.Values != nil {
		joined.Values, joined.Tenant = o.Values, o.Tenant
	}
	if o.HTTP != nil {
		joined.HTTP = o.HTTP
	}
	return joined, nil
}

// Scoped returns the chain with run-local values that are apart from those of
// other scopes in the same run, but for those that are shared in a ring.
func (c *Chain) Scoped(scope string) *Chain {
	out := &Chain{c.Options, c.entries, c.breakers, scope, slices.Clone(c.plans), c.places}
	for i := range out.plans {
		out.plans[i].owner = c.entries[i].owner(scope)
	}
	return out
}

// New checks the entries and returns their chain.
func New(entries ...Entry) (*Chain, error) {
	names := map[string]bool{}
	for i, e := range entries {
		switch {
		case e.Name == "" || len(e.Name) > abi.MaxName:
			return nil, fmt.Errorf("middleware %d needs a name of 1 to %d bytes", i, abi.MaxName)
		case e.Name == sourceHost || e.Name == sourceModel || e.Name == sourceTool:
			return nil, fmt.Errorf("a middleware cannot be named %q, which stands for the %s itself; give it another name", e.Name, e.Name)
		case e.Name != safetext.Clean(e.Name) || strings.ContainsAny(e.Name, "\n\t"):
			return nil, fmt.Errorf("the name of middleware %q has control characters", e.Name)
		case names[e.Name]:
			return nil, fmt.Errorf("two middlewares are named %q; give one of them another name", e.Name)
		case e.Middleware == nil:
			return nil, fmt.Errorf("middleware %q has no code", e.Name)
		case e.Ring < Outer || e.Ring >= rings:
			return nil, fmt.Errorf("middleware %q is in no ring", e.Name)
		case !slices.Contains([]OnFault{"", Fail, Skip}, e.OnFault):
			return nil, fmt.Errorf("middleware %q: on_fault is %q; want fail or skip", e.Name, e.OnFault)
		case !slices.Contains([]Read{"", ReadAll, ReadLast, ReadNone}, e.Read):
			return nil, fmt.Errorf("middleware %q: reading is %q; want all, last or none", e.Name, e.Read)
		}
		if err := e.checkHooks(); err != nil {
			return nil, err
		}
		names[e.Name] = true
	}
	c := &Chain{entries: slices.Clone(entries)}
	for i := range c.entries {
		c.breakers = append(c.breakers, &breaker{})
		c.plans = append(c.plans, c.entries[i].plan())
	}
	c.places = placesOf(len(entries), func(i int, h abi.Hook) (Ring, bool) { return entries[i].Ring, c.plans[i].hooks[h] })
	return c, nil
}

func (e *Entry) checkHooks() error {
	has := e.Middleware.Describe().Hooks
	for _, h := range e.Hooks {
		if !slices.Contains(has, h) {
			return fmt.Errorf("middleware %q has no hook %q to call; it has %v", e.Name, h, has)
		}
	}
	return nil
}

// Entries returns the entries in their order.
func (c *Chain) Entries() []Entry { return slices.Clone(c.entries) }

// Host is what the chain needs of the agent that runs it. Its methods are
// called from several goroutines at once.
type Host interface {
	// Where says where in the run it is now.
	Where() abi.Run
	// Send sends an event, and returns it as it was sent: with run, step, time
	// and number.
	Send(abi.Event) abi.Event
}

// A Run is a chain in one run of an agent.
type Run struct {
	Options
	host   Host
	locals *local.Values
	record *record.Record
	all    []*member
	lists  lists
	queue  *queue

	streams *atomic.Int64 // how many streams there were
	keeping *sync.RWMutex // read-locked while something is recorded, locked while that is collected
	owed    *owed

	accountant Accountant       // nil: memory is not limited
	account    *account.Account // its account; nil if nothing is counted
	recorded   *account.Share   // by the record

	// Of a run as a call of a middleware's own passes it; see [Call.Tool].
	path    []frame // the calls that it is made within, itself last
	scope   string  // sets its hooks apart in the record
	settled bool    // nothing in it may pause the run
	last    bool    // it is within after_agent: nothing in it ends the run, which has ended
}

// A member is an entry in a run.
type member struct {
	Entry
	owner   local.Owner // of its run-local values
	desc    *Description
	hooks   map[abi.Hook]bool
	session Session
	breaker *breaker
	events  map[abi.EventType]bool // that observe wants

	ownModel, ownTool atomic.Int64 // calls that it made of its own
	lies              atomic.Int64 // answers that make no sense here: faults that its session does not know of
}

func (m *member) has(h abi.Hook) bool { return m.hooks[h] }

// Open prepares every middleware for a run. locals are the run's values, new
// or from before a pause.
func (c *Chain) Open(ctx context.Context, run string, host Host, locals *local.Values) (*Run, error) {
	r := &Run{Options: c.Options, host: host, locals: locals, record: record.New(),
		queue: &queue{}, streams: &atomic.Int64{}, keeping: &sync.RWMutex{}, owed: &owed{}}
	if r.accountant, _ = host.(Accountant); r.accountant != nil {
		r.account = r.accountant.Account()
		r.recorded, r.queue.share = account.NewShare(r.account), account.NewShare(r.account)
	}
	members := make([]member, len(c.entries))
	r.all = make([]*member, 0, len(c.entries))
	for i := range c.entries {
		e, p := &c.entries[i], &c.plans[i]
		session, err := e.Middleware.Open(ctx, e.Name, run)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("middleware %q: %w", e.Name, err)
		}
		members[i] = member{Entry: *e, owner: p.owner, desc: &p.desc, session: session, breaker: c.breakers[i], hooks: p.hooks, events: p.events}
		r.all = append(r.all, &members[i])
	}
	r.lists = c.places.fill(r.all)
	r.queue.wanted = wanted(r.all)
	return r, nil
}

// Streams counts the streams that there were in the run, by which on_chunk
// tells them apart; a resumed run goes on counting from there.
func (r *Run) Streams() *atomic.Int64 { return r.streams }

// Begin begins a pass through a phase of the run, with what was done in
// earlier passes.
func (r *Run) Begin(record *record.Record) {
	record.BeginPass()
	r.keeping.Lock()
	defer r.keeping.Unlock()
	r.record = record
	record.SetShare(r.recorded)
}

// Close closes all sessions.
func (r *Run) Close() {
	if r.recorded != nil {
		_, _ = r.recorded.Set(0), r.queue.share.Set(0)
	}
	for _, m := range r.all {
		m.session.Close()
	}
}

// Stats tell what each entry used.
func (r *Run) Stats() []abi.EntryStats {
	out := make([]abi.EntryStats, len(r.all))
	for i, m := range r.all {
		out[i] = m.session.Stats()
		out[i].Entry, out[i].Digest = m.Name, m.desc.Digest
		out[i].Faults += m.lies.Load()
		out[i].ModelCalls, out[i].ToolCalls = m.ownModel.Load(), m.ownTool.Load()
	}
	return out
}

func (r *Run) find(name string) *member {
	for _, m := range r.all {
		if m.Name == name {
			return m
		}
	}
	return nil
}
