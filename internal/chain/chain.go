// Package chain calls an agent's middlewares in their order: pipelines, wrappers, gates and
// observers, ring by ring.
//
//	model call, ring by ring:  before_model → wrap_model( the next ring … → model ) → on_chunk → after_model
//	tool call,  ring by ring:  before_tool → wrap_tool_call( the next ring … → every gate_tool of every ring → tool )
//	                           → on_chunk → after_tool
//
// Within a ring, pipelines run in registration order, and the first registered wrapper is the
// outermost. A reply from inside a ring passes the on_chunk and after hooks of that ring and of
// every ring outside it, whatever the source of the reply.
//
// A Chain is built from entries. In each run, the agent's loop calls it to make model calls and
// tool calls. The chain produces events, and errors that end or pause the run. The package depends
// only on an interface of middlewares, and not on the agent's loop. It uses package exchange for
// the order of hooks in one call, and package hook for single hooks. Neither of them calls package
// chain.
package chain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/exchange"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Chain is a list of entries in registration order. It serves many runs concurrently.
type Chain struct {
	hook.Options
	plans  []hook.Plan // plans of the entries, in their order
	scope  string      // separates the chain's run-local values; see Scoped
	places hook.Places // positions of the entries in the hooks' lists
}

// With returns a copy of the chain with the options o.
func (c *Chain) With(o hook.Options) *Chain {
	return &Chain{o, c.plans, c.scope, c.places}
}

// Join returns a chain of the entries of c and o. Within each ring, the entries of c come first.
// The result has the options of c, except that it has the Values and Tenant of o if o has Values,
// and the HTTP of o if o has HTTP. Join returns an error if an entry of c and an entry of o have
// the same name.
func (c *Chain) Join(o *Chain) (*Chain, error) {
	joined, err := New(slices.Concat(c.Entries(), o.Entries())...)
	if err != nil {
		return nil, err
	}
	joined.plans = slices.Concat(c.plans, o.plans) // chains with the same plans share circuit breakers
	joined = joined.Scoped(c.scope)
	joined.Options = c.Options
	if o.Values != nil {
		joined.Values, joined.Tenant = o.Values, o.Tenant
	}
	if o.HTTP != nil {
		joined.HTTP = o.HTTP
	}
	return joined, nil
}

// Scoped returns a copy of the chain whose entries have separate run-local values in a run: entries
// of chains with other scopes do not share them. The values that all entries of a ring share are
// the same in all scopes.
func (c *Chain) Scoped(scope string) *Chain {
	out := &Chain{c.Options, slices.Clone(c.plans), scope, c.places}
	for i := range out.plans {
		out.plans[i] = out.plans[i].Scoped(scope)
	}
	return out
}

// New returns a chain of the entries, in registration order. It returns an error if an entry is
// invalid, or if two entries have the same name.
func New(entries ...hook.Entry) (*Chain, error) {
	names := map[string]bool{}
	for i, e := range entries {
		switch {
		case e.Name == "" || len(e.Name) > contract.MaxName:
			return nil, fmt.Errorf("middleware %d needs a name of 1 to %d bytes", i, contract.MaxName)
		case e.Name == exchange.SourceHost || e.Name == exchange.SourceModel || e.Name == exchange.SourceTool:
			return nil, fmt.Errorf("a middleware cannot be named %q, which stands for the %s itself; give it another name",
				e.Name, e.Name)
		case e.Name != safetext.Clean(e.Name) || strings.ContainsAny(e.Name, "\n\t"):
			return nil, fmt.Errorf("the name of middleware %q has control characters", e.Name)
		case names[e.Name]:
			return nil, fmt.Errorf("two middlewares are named %q; rename one of them", e.Name)
		case e.Middleware == nil:
			return nil, fmt.Errorf("middleware %q has no code", e.Name)
		case e.Ring < hook.Outer || e.Ring >= hook.RingCount:
			return nil, fmt.Errorf("middleware %q is in no ring", e.Name)
		case !slices.Contains([]hook.OnFault{"", hook.Fail, hook.Skip}, e.OnFault):
			return nil, fmt.Errorf("middleware %q: on_fault is %q; want fail or skip", e.Name, e.OnFault)
		case !slices.Contains([]hook.Read{"", hook.ReadAll, hook.ReadLast, hook.ReadNone}, e.Read):
			return nil, fmt.Errorf("middleware %q: reading is %q; want all, last or none", e.Name, e.Read)
		}
		if e.Ring == hook.Tenant && e.Middleware.Describe().SetLabels {
			return nil, fmt.Errorf(
				"middleware %q: the grant set:labels is for the outer and the inner ring; set ring, or remove the grant", e.Name)
		}
		if err := checkHooks(&e); err != nil {
			return nil, err
		}
		if err := checkWhen(&e); err != nil {
			return nil, fmt.Errorf("middleware %q: when: %w", e.Name, err)
		}
		names[e.Name] = true
	}
	c := &Chain{plans: make([]hook.Plan, len(entries))}
	for i := range entries {
		c.plans[i] = hook.NewPlan(entries[i])
	}
	c.places = hook.PlacesOf(len(entries),
		func(i int, h abi.Hook) (hook.Ring, bool) { return entries[i].Ring, c.plans[i].Has(h) })
	return c, nil
}

func checkHooks(e *hook.Entry) error {
	has := e.Middleware.Describe().Hooks
	for _, h := range e.Hooks {
		if !slices.Contains(has, h) {
			return fmt.Errorf("middleware %q has no hook %q to call; it has %v", e.Name, h, has)
		}
	}
	return nil
}

func checkWhen(e *hook.Entry) error {
	if err := hook.CheckWhen(&e.When); err != nil {
		return err
	}
	hooks := e.Hooks
	if hooks == nil {
		hooks = e.Middleware.Describe().Hooks
	}
	return hook.CheckEffect(&e.When, hooks)
}

// Entries returns the entries in registration order.
func (c *Chain) Entries() []hook.Entry {
	out := make([]hook.Entry, len(c.plans))
	for i := range c.plans {
		out[i] = c.plans[i].Entry
	}
	return out
}

// A Run is a chain in one run of an agent.
type Run struct {
	*hook.Run
	// Approve, if not nil, decides about a call when gates ask for a decision. The run then does not
	// pause. Any decision but [abi.Approve] denies the call.
	Approve func(ctx context.Context, call abi.Call, asks []abi.Ask) abi.Decision
	members []*hook.Member
	queue   *queue
}

// Open prepares the chain's middlewares for a run. It leaves out entries whose conditions on the
// run's agent and metadata do not hold. locals has the run-local values, which are empty for a new
// run. The caller closes the result.
func (c *Chain) Open(ctx context.Context, run abi.Run, host hook.Host, locals *local.Values) (*Run, error) {
	r := &Run{Run: hook.NewRun(c.Options, host, locals), queue: &queue{}}
	r.Events = func(e abi.Event) { r.queue.add(&e) }
	if r.Account != nil {
		r.queue.share = account.NewShare(r.Account)
	}
	r.members = make([]*hook.Member, 0, len(c.plans))
	for i := range c.plans {
		if !c.plans[i].InRun(run) {
			continue
		}
		m, err := c.plans[i].Open(ctx, run.ID)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.members = append(r.members, m)
	}
	if len(r.members) == len(c.plans) {
		r.Lists = c.places.Fill(r.members)
	} else {
		r.Lists = hook.ListsOf(r.members, func(*hook.Member) bool { return true })
	}
	if _, ok := host.(Nester); ok {
		r.Nested = r
	}
	r.queue.wanted = wanted(r.members)
	return r, nil
}

// Streams returns the counter that numbers the run's streams for on_chunk. A resumed run must set
// it to its former value.
func (r *Run) Streams() *atomic.Int64 { return r.StreamIDs }

// Close closes the sessions of all middlewares, and releases the memory that is counted for queued
// events and for the record.
func (r *Run) Close() {
	r.Release()
	if r.queue.share != nil {
		_ = r.queue.share.Set(0)
	}
	for _, m := range r.members {
		m.Close()
	}
}

// Stats returns the statistics of each entry that takes part in the run.
func (r *Run) Stats() []abi.EntryStats {
	out := make([]abi.EntryStats, len(r.members))
	for i, m := range r.members {
		out[i] = m.Stats()
	}
	return out
}

// find returns the member with the given name, or nil.
func (r *Run) find(name string) *hook.Member {
	for _, m := range r.members {
		if m.Name == name {
			return m
		}
	}
	return nil
}
