package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module"
)

// turns is the number of measured runs of each conversation in [messages].
const turns = 21

// lengths holds the numbers of messages of the compared conversations.
var lengths = [...]int{10, 1000, 20_000}

// messages measures a step with a module that reads nothing, the last message, or each message once.
// It repeats this with a new instance for each hook: the module then forgets its position, or stores
// it in a run-local value. The first step is measured separately, because a module that reads all
// messages reads them in that step. The runs of the compared conversations are interleaved.
func messages(ctx context.Context, h *host.Host, m *host.Module) error {
	var talks [len(lengths)][]abi.Message
	for i, n := range lengths {
		talks[i] = conversation(n)
	}
	fmt.Println(
		"| looks at | messages | first step, us | a later step, us | of these the processors | against 10 messages |\n|---|---|---|---|---|---|",
	)
	for _, row := range []struct {
		name, at     string
		wiped        bool
		steps, turns int
	}{
		{"no module", "", false, 200, turns},
		{"nothing", "nothing", false, 200, turns},
		{"last", "last", false, 200, turns},
		{"all, each once", "all", false, 200, turns},
		{"nothing, memory gone at each hook", "nothing", true, 100, turns},
		{"all, memory gone at each hook, what it has seen kept in a run-local value", "kept", true, 100, turns},
		{"all, memory gone at each hook, and with it what it has seen", "all", true, 8, 3},
	} {
		c, err := looking(ctx, m, row.at, row.wiped)
		if err != nil {
			return err
		}
		var all [len(lengths)]measured
		for turn := range row.turns + 1 {
			for i, conversation := range talks {
				first, later, err := stepsOf(ctx, c, row.steps, conversation)
				if err != nil {
					return fmt.Errorf("%s of %d: %w", row.name, len(conversation), err)
				}
				if turn > 0 { // the first warms up
					all[i].firstSpans, all[i].laterSpans = append(all[i].firstSpans, first), append(all[i].laterSpans, later)
				}
			}
		}
		for i, n := range lengths {
			ratios := make([]float64, row.turns)
			for turn := range ratios {
				ratios[turn] = all[i].laterSpans[turn].Used / all[0].laterSpans[turn].Used
			}
			later := stats.MedianSpan(all[i].laterSpans)
			fmt.Printf(
				"| %s | %d | %.0f | %.1f | %.1f | %.2f (%.2f to %.2f) |\n",
				row.name,
				n,
				stats.MedianSpan(all[i].firstSpans).Wall,
				later.Wall,
				later.Used,
				stats.Median(ratios),
				slices.Min(ratios),
				slices.Max(ratios),
			)
		}
	}
	return nil
}

// measured holds the times of the runs with one conversation.
type measured struct{ firstSpans, laterSpans []stats.Span }

// stepsOf returns the time of the first step of a run, and the average time of a later step.
func stepsOf(
	ctx context.Context,
	c *chain.Chain,
	steps int,
	conversation []abi.Message,
) (first, later stats.Span, err error) {
	s := &script{steps: steps}
	a, err := agent.New(&agent.Options{Chain: c, Model: s, Tools: []tool.Tool{echo()}, MaxSteps: steps})
	if err != nil {
		return first, later, err
	}
	runtime.GC() // keep garbage of earlier runs out of this measurement
	return s.run(func() iter.Seq2[abi.Event, error] { return a.Run(ctx, agent.Input{Messages: conversation}) })
}

// looking returns a chain with the module m. The parameter at configures which part of the
// conversation the module reads; if it is empty, the chain is empty. If wiped is true, the module's
// memory is lost at each hook.
func looking(ctx context.Context, m *host.Module, at string, wiped bool) (*chain.Chain, error) {
	if at == "" {
		return chain.New()
	}
	config, err := json.Marshal(map[string]string{"at": at})
	if err != nil {
		return nil, err
	}
	mw, err := module.Configure(ctx, m, "look", config, host.Grants{})
	if err != nil {
		return nil, err
	}
	e := hook.Entry{Name: "look", Ring: hook.Tenant, Middleware: mw}
	if wiped {
		e.Middleware = forgetful{mw}
	}
	return chain.New(e)
}

// A forgetful middleware uses a new instance for each hook, so an instance remembers nothing from
// earlier hooks.
type forgetful struct{ hook.Middleware }

// Open implements [hook.Middleware].
func (f forgetful) Open(_ context.Context, entry, run string) (hook.Session, error) {
	return &forgetfulSession{f.Middleware, entry, run}, nil
}

type forgetfulSession struct {
	middleware hook.Middleware
	entry, run string
}

// Call implements [hook.Session].
func (f *forgetfulSession) Call(ctx context.Context, c *hook.Call, in, out any) error {
	s, err := f.middleware.Open(ctx, f.entry, f.run)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Call(ctx, c, in, out)
}

// Stats implements [hook.Session]. The benchmark does not use it.
func (*forgetfulSession) Stats() abi.EntryStats { return abi.EntryStats{} }

// Close implements [hook.Session].
func (*forgetfulSession) Close() {}
