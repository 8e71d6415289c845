package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
)

// calls is the number of calls of each run in [times], and turns is the number of runs.
const (
	calls = 200
	turns = 15
)

// times measures the time of a step with a call that sends a message, with and without the module
// provenance, after histories of different lengths. The first step is measured separately, because
// the module reads the history in it. times also measures fuel, which does not depend on the
// machine's load.
func times(ctx context.Context, w io.Writer, l *library) error {
	e, err := l.entry(ctx, "provenance", object{})
	if err != nil {
		return err
	}
	fmt.Fprint(
		w,
		"| messages before | first step adds | its fuel | a later step adds | its fuel | a step without modules |\n",
	)
	fmt.Fprint(w, "|---:|---:|---:|---:|---:|---:|\n")
	for _, n := range []int{10, 100, 1000} {
		var first, later, bare []float64
		var once, all span
		for turn := range turns + 1 {
			without, err := timed(ctx, l.host, n, calls, nil)
			if err != nil {
				return err
			}
			if all, err = timed(ctx, l.host, n, calls, []host.Middleware{e}); err != nil {
				return err
			}
			if once, err = timed(ctx, l.host, n, 1, []host.Middleware{e}); err != nil {
				return err
			}
			if turn > 0 { // the first warms up
				first = append(first, all.first-without.first)
				later = append(later, all.later-without.later)
				bare = append(bare, without.later)
			}
		}
		const row = "| %d | %.0f us | %d k | %.1f us | %d k | %.1f us |\n"
		fmt.Fprintf(w, row, n, stats.Median(first), once.fuel/1000, stats.Median(later),
			(all.fuel-once.fuel)/(calls-1)/1000, stats.Median(bare))
	}
	return nil
}

// A span holds the time of the first step of a run and the mean time of a later step, in
// microseconds, and the fuel of the run.
type span struct {
	first, later float64
	fuel         int64
}

// timed runs an agent that calls the tool send_message in each of n steps. The run begins with a
// conversation of the given number of messages.
func timed(ctx context.Context, h *host.Host, messages, n int, list []host.Middleware) (span, error) {
	send := abi.Tool{
		Name: "send_message", Description: "Sends a message to a person.",
		Parameters: []byte(`{"type":"object","properties":{"to":{"type":"string"},"body":{"type":"string"}}}`),
	}
	sent := 0
	m := &sender{calls: n}
	a, err := h.NewAgent(ctx, &host.AgentOptions{
		Model: m, MaxSteps: n + 1, Middlewares: list,
		Tools: []tool.Tool{tool.Func(send, func(context.Context, abi.Call) (*abi.Result, error) {
			sent++
			return abi.TextResult(`{"id":"m-1","status":"sent","to":"ann@example.com"}`), nil
		})},
	})
	if err != nil {
		return span{}, err
	}
	defer a.Close()
	var out span
	began := time.Now()
	for e, err := range a.Run(ctx, host.Input{Messages: conversation(messages)}) {
		if err != nil {
			return span{}, err
		}
		for _, stats := range e.Entries {
			out.fuel += stats.Fuel
		}
	}
	if sent != n {
		return span{}, errors.New("a call did not run")
	}
	us := func(from, to time.Time, steps int) float64 {
		return float64(to.Sub(from).Nanoseconds()) / 1e3 / float64(max(steps, 1))
	}
	out.first, out.later = us(began, m.at[1], 1), us(m.at[1], m.at[n], n-1)
	return out, nil
}

// conversation returns n messages: questions of the user, calls, and results with records.
func conversation(n int) []abi.Message {
	out := []abi.Message{abi.User("Send ann@example.com a message whenever something is new.")}
	for i := 0; len(out) < n; i++ {
		id := fmt.Sprintf("old_%d", i)
		called := abi.Message{
			Role: abi.RoleAssistant, Content: abi.Text(""),
			ToolCalls: []abi.ToolCall{abi.NewToolCall(id, "list_orders", "{}")},
		}
		const orders = `[{"id":"o-%d","customer":"c%d@example.com","item":"A box of screws","total":12.5},` +
			`{"id":"p-%d","customer":"d%d@example.com","item":"A hammer","total":30}]`
		out = append(out, called, abi.ToolMessage(id, "list_orders", abi.Text(fmt.Sprintf(orders, i, i, i, i))))
	}
	return out
}

// A sender is a model that sends a message in each step.
type sender struct {
	calls int
	at    []time.Time
}

// Generate implements [model.Model].
func (s *sender) Generate(_ context.Context, _ *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	s.at = append(s.at, time.Now())
	m, finish := abi.Assistant("Done."), abi.FinishStop
	if n := len(s.at); n <= s.calls {
		m = abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{
			abi.NewToolCall(fmt.Sprintf("call_%d", n), "send_message", `{"to":"ann@example.com","body":"It is new."}`),
		}}
		finish = abi.FinishToolCalls
	}
	for _, c := range m.Chunks() {
		if err := sink(c); err != nil {
			return nil, err
		}
	}
	return &abi.Response{Message: m, FinishReason: finish}, nil
}
