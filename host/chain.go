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
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/module"
)

// A Middleware is one entry of an agent's chain: a module or a native Go middleware.
type Middleware struct {
	Name    string // unique in the agent; the default for a module is its file name without the extension
	Module  *Module
	Native  *native.Middleware
	Config  json.RawMessage // for the module
	Grants  Grants          // for the module; the default grants only reading all messages
	OnFault hook.OnFault    // the default is Fail
	// Hooks lists the hooks to call. The default is all hooks of the module or native middleware.
	Hooks []abi.Hook
	When  When // the runs and calls in which the middleware is called; the default is all
}

// ChainOptions configure a chain. They are copied.
type ChainOptions struct {
	// Middlewares are called in this order, inside Outer and around Inner.
	Middlewares []Middleware
	Outer       []Middleware
	Inner       []Middleware
	// ContinueOnError runs the rest of a pipeline after a hook that failed. The first
	// error is reported at the end.
	ContinueOnError bool
	// ContinueOnResponse runs the rest of a before pipeline after a hook that answered. The last
	// answer is used, unless a hook fails.
	ContinueOnResponse bool
	// Values stores the durable values of entries, for Tenant. If nil, they are unavailable.
	Values hook.Values
	Tenant string
	// HTTP sends requests of middlewares. If nil, they fail.
	HTTP hook.HTTP
	// Tracer, if not nil, receives the operations of the run.
	Tracer Tracer
}

// A Chain is a list of configured middlewares. Each agent has one. A run can have an
// additional one in Input.Chain, such as a tenant's, inside the rings of the agent.
type Chain struct {
	Chain      *chain.Chain // for Input.Chain
	configured []*module.Middleware
	closers    []func()
}

// NewChain returns a chain of the given middlewares. It configures their modules concurrently. An
// error names the failing middleware. The caller must close the chain.
func (h *Host) NewChain(ctx context.Context, o *ChainOptions) (*Chain, error) {
	c := &Chain{}
	var entries []hook.Entry
	var from []Middleware // the Middleware of each entry, by index
	for _, ring := range []struct {
		ring hook.Ring
		list []Middleware
	}{{hook.Outer, o.Outer}, {hook.Tenant, o.Middlewares}, {hook.Inner, o.Inner}} {
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
	c.Chain = list.With(hook.Options{
		ContinueOnError:    o.ContinueOnError,
		ContinueOnResponse: o.ContinueOnResponse,
		Values:             o.Values,
		Tenant:             o.Tenant,
		HTTP:               o.HTTP,
		Tracer:             o.Tracer,
	})
	return c, nil
}

// entry returns the chain entry of a middleware. The entry of a module is not configured yet.
func (m *Middleware) entry(ring hook.Ring) (hook.Entry, error) {
	e := hook.Entry{Name: m.Name, Ring: ring, OnFault: m.OnFault, Read: m.Grants.Read, Hooks: m.Hooks, When: m.When}
	switch {
	case (m.Module == nil) == (m.Native == nil):
		return e, fmt.Errorf("middleware %q must have a module or be native, one of them", m.Name)
	case m.Native != nil:
		e.Middleware = (*inproc.Middleware)(m.Native)
	case e.Name == "":
		file := filepath.Base(m.Module.Name())
		e.Name = strings.TrimSuffix(file, filepath.Ext(file))
	}
	return e, nil
}

// configure configures the modules of entries and returns the chain. It configures one
// module per processor at a time, since configuring creates the memory image. If several
// entries fail, it returns the error of the first one in order.
func (c *Chain) configure(ctx context.Context, entries []hook.Entry, from []Middleware) (*chain.Chain, error) {
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
			configured[i], errs[i] = module.Configure(ctx, m.Module, entries[i].Name, m.Config, m.Grants)
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

// Close releases the resources of the entries once no run uses them.
func (c *Chain) Close() {
	for _, mw := range c.configured {
		mw.Close()
	}
	closeAll(c.closers)
}
