package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/chain"
	"github.com/agent-runner/agent-runner/host/module"
)

// A Middleware is one entry of an agent's chain: a module or native Go.
type Middleware struct {
	Name    string // unique in the agent; the stem of the module's file when empty
	Module  *Module
	Native  *Native
	Config  json.RawMessage // for the module
	Grants  Grants          // for the module; zero: it reads the messages, and nothing else
	OnFault chain.OnFault   // Fail when empty
	// Hooks are those of its hooks that are called; nil: all.
	Hooks []abi.Hook
}

// ChainOptions make a chain. They are copied.
type ChainOptions struct {
	// Middlewares are called in this order, within Outer and around Inner.
	Middlewares []Middleware
	Outer       []Middleware
	Inner       []Middleware
	chain.Options
}

// A Chain is configured middlewares. An agent has one, and a run may be given
// another beside it, as Input.Chain: a tenant's, say, within the rings of the
// agent. Programs with a loop of their own open it themselves, for a run or for a
// part of one.
type Chain struct {
	*chain.Chain
	host       *Host
	configured []*module.Middleware
}

// NewChain configures middlewares, modules side by side. The error says which of
// them is wrong.
func (h *Host) NewChain(ctx context.Context, o *ChainOptions) (*Chain, error) {
	c := &Chain{host: h}
	var entries []chain.Entry
	var from []Middleware // of each entry
	for _, ring := range []struct {
		ring chain.Ring
		list []Middleware
	}{{chain.Outer, o.Outer}, {chain.Tenant, o.Middlewares}, {chain.Inner, o.Inner}} {
		for _, m := range ring.list {
			e, err := m.entry(ring.ring)
			if err != nil {
				return nil, err
			}
			entries, from = append(entries, e), append(from, m)
		}
	}
	list, err := c.configure(ctx, entries, from)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.Chain = list.With(o.Options)
	return c, nil
}

// entry is the entry of a middleware; that of a module is to be configured.
func (m *Middleware) entry(ring chain.Ring) (chain.Entry, error) {
	e := chain.Entry{Name: m.Name, Ring: ring, OnFault: m.OnFault, Read: m.Grants.Read, Hooks: m.Hooks}
	switch {
	case (m.Module == nil) == (m.Native == nil):
		return e, fmt.Errorf("middleware %q must have a module or be native, one of them", m.Name)
	case m.Native != nil:
		e.Middleware = m.Native
	case e.Name == "":
		file := filepath.Base(m.Module.Name())
		e.Name = strings.TrimSuffix(file, filepath.Ext(file))
	}
	return e, nil
}

// configure configures the modules of entries, as many at once as there are
// processors, since each makes its image then, and makes a chain of all entries. The
// error is that of the first entry, whichever came to its end first.
func (c *Chain) configure(ctx context.Context, entries []chain.Entry, from []Middleware) (*chain.Chain, error) {
	configured, errs := make([]*module.Middleware, len(entries)), make([]error, len(entries))
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, m := range from {
		if m.Module == nil {
			continue
		}
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			configured[i], errs[i] = m.Module.Configure(ctx, entries[i].Name, m.Config, m.Grants)
		})
	}
	wg.Wait()
	for i, mw := range configured {
		if mw != nil {
			c.configured = append(c.configured, mw)
			entries[i].Middleware = mw
		}
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return chain.New(entries...)
}

// Reserve takes the memory that a run of the chain may come to use, with as
// many tool calls at once as there is plenty of memory for, at most parallel.
// It waits for runs that end; the context that it returns is the run's. The
// memory is given back by Release.
func (c *Chain) Reserve(ctx context.Context, parallel int) (context.Context, *agent.Admission, error) {
	return c.host.reserve(ctx, placedIn(c.Chain), parallel)
}

func (h *Host) reserve(ctx context.Context, run []module.Placed, parallel int) (context.Context, *agent.Admission, error) {
	ctx, r, err := h.loader.Reserve(ctx, run, parallel)
	if err != nil {
		return ctx, nil, err
	}
	return ctx, &agent.Admission{Parallel: r.Parallel, Release: r.Release, Room: r.Room.Take}, nil
}

// placedIn are the modules of a chain.
func placedIn(c *chain.Chain) (out []module.Placed) {
	for _, e := range c.Entries() {
		if mw, ok := e.Middleware.(*module.Middleware); ok {
			out = append(out, module.Placed{Middleware: mw, Ring: e.Ring})
		}
	}
	return out
}

// Close frees what the entries hold, once no run of them goes on.
func (c *Chain) Close() {
	for _, mw := range c.configured {
		mw.Close()
	}
}
