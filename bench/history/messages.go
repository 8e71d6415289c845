package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/chain"
	"github.com/agent-runner/agent-runner/host/tool"
)

// messages measures a step with a module that looks at nothing, at the last message,
// or at all of them once; and the last again with memory that is gone at each hook,
// where the module forgets how far it has looked, or keeps that in a run-local value.
// The first step, in which a module that looks at all reads all, is apart.
func messages(ctx context.Context, h *host.Host, m *host.Module) error {
	fmt.Println("| looks at | messages | first step, us | a later step, us | of these the processors | against 10 messages |\n|---|---|---|---|---|---|")
	for _, row := range []struct {
		name, at string
		wiped    bool
	}{
		{"no module", "", false},
		{"nothing", "nothing", false},
		{"last", "last", false},
		{"all, each once", "all", false},
		{"nothing, memory gone at each hook", "nothing", true},
		{"all, memory gone at each hook, what it has seen kept in a run-local value", "kept", true},
		{"all, memory gone at each hook, and with it what it has seen", "all", true},
	} {
		var few float64
		for _, n := range []int{10, 1000, 20_000} {
			c, err := looking(ctx, m, row.at, row.wiped)
			if err != nil {
				return err
			}
			s := &script{steps: 20}
			runs := 9
			if row.wiped {
				s.steps, runs = 10, 3
			}
			a, err := agent.New(&agent.Options{Chain: c, Model: s, Tools: []tool.Tool{echo()}, MaxSteps: s.steps})
			if err != nil {
				return err
			}
			talk := conversation(n)
			first, later, err := s.medians(runs, func() iter.Seq2[abi.Event, error] { return a.Run(ctx, agent.Input{Messages: talk}) })
			if err != nil {
				return fmt.Errorf("%s of %d: %w", row.name, n, err)
			}
			if few == 0 {
				few = later.Used
			}
			fmt.Printf("| %s | %d | %.0f | %.1f | %.1f | %.2f |\n", row.name, n, first.Wall, later.Wall, later.Used, later.Used/few)
		}
	}
	return nil
}

// looking is a chain of a module that looks so; empty if it is to look nowhere.
func looking(ctx context.Context, m *host.Module, at string, wiped bool) (*chain.Chain, error) {
	if at == "" {
		return chain.New()
	}
	config, err := json.Marshal(map[string]string{"at": at})
	if err != nil {
		return nil, err
	}
	mw, err := m.Configure(ctx, "look", config, host.Grants{})
	if err != nil {
		return nil, err
	}
	e := chain.Entry{Name: "look", Ring: chain.Tenant, Middleware: mw}
	if wiped {
		e.Middleware = forgetful{mw}
	}
	return chain.New(e)
}

// A forgetful middleware has an instance of its own for each hook: memory is a cache,
// and this one never hits.
type forgetful struct{ chain.Middleware }

// Open implements [chain.Middleware].
func (f forgetful) Open(_ context.Context, entry, run string) (chain.Session, error) {
	return &forgetfulSession{f.Middleware, entry, run}, nil
}

type forgetfulSession struct {
	middleware chain.Middleware
	entry, run string
}

// Call implements [chain.Session].
func (f *forgetfulSession) Call(ctx context.Context, c *chain.Call, in, out any) error {
	s, err := f.middleware.Open(ctx, f.entry, f.run)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Call(ctx, c, in, out)
}

// Stats implements [chain.Session]. Nobody looks at them.
func (*forgetfulSession) Stats() abi.EntryStats { return abi.EntryStats{} }

// Close implements [chain.Session].
func (*forgetfulSession) Close() {}
