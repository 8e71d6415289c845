// Command history measures what a step costs as the conversation before it
// grows, with a module that looks at none of it, at the last message, or at all
// of them:
//
//	history LOOK.wasm
//
// A run has 20 steps, each with a call of a tool. The figures are medians of runs:
// of the hook alone, and of a whole step, the host's part included, both without
// the first step, in which a module that looks at everything reads it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
)

const steps = 20

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: history LOOK.wasm")
		os.Exit(2)
	}
	if err := measure(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, path string) error {
	h, err := host.New(ctx, nil)
	if err != nil {
		return err
	}
	defer h.Close(ctx)
	m, err := h.Load(ctx, path, host.Limits{})
	if err != nil {
		return err
	}
	fmt.Println("| looks at | messages | first step, us | a later step, us | against 10 messages |\n|---|---|---|---|---|")
	for _, at := range []string{"no module", "nothing", "last", "all"} {
		var few float64
		for _, n := range []int{10, 1000, 20_000} {
			first, later, err := look(ctx, h, m, at, n)
			if err != nil {
				return fmt.Errorf("%s of %d: %w", at, n, err)
			}
			if few == 0 {
				few = later
			}
			fmt.Printf("| %s | %d | %.0f | %.1f | %.2f |\n", at, n, first, later, later/few)
		}
	}
	return nil
}

// look returns what the first step of a run and a later one take, in microseconds.
func look(ctx context.Context, h *host.Host, m *host.Module, at string, n int) (first, later float64, err error) {
	var list []host.Middleware
	if at != "no module" {
		config, err := json.Marshal(map[string]string{"at": at})
		if err != nil {
			return 0, 0, err
		}
		list = append(list, host.Middleware{Name: "look", Module: m, Config: config})
	}
	answers := &script{}
	a, err := h.NewAgent(ctx, &host.AgentOptions{Model: answers, Tools: []tool.Tool{echo()}, Middlewares: list, MaxSteps: steps + 1})
	if err != nil {
		return 0, 0, err
	}
	defer a.Close()
	filler := strings.Repeat("They are baked at five and delivered at seven. ", 21)
	var messages []abi.Message
	for i := range n {
		messages = append(messages, abi.User(fmt.Sprintf("%d. %s", i, filler)))
	}
	var firsts, laters []float64
	for run := range 12 {
		answers.asked = answers.asked[:0]
		began := time.Now()
		for _, err := range a.Run(ctx, host.Input{Messages: messages}) {
			if err != nil {
				return 0, 0, err
			}
		}
		if len(answers.asked) != steps {
			return 0, 0, errors.New("the run did not have all its steps")
		}
		if run < 2 { // they warm up
			continue
		}
		firsts = append(firsts, micros(answers.asked[0].Sub(began)))
		laters = append(laters, micros(answers.asked[steps-1].Sub(answers.asked[0]))/(steps-1))
	}
	return median(firsts), median(laters), nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func median(list []float64) float64 {
	slices.Sort(list)
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// A script is a model that answers at once, and notes when it was asked.
type script struct{ asked []time.Time }

// Generate implements [model.Model].
func (s *script) Generate(_ context.Context, _ *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	s.asked = append(s.asked, time.Now())
	m, finish := abi.Assistant("done"), abi.FinishStop
	if n := len(s.asked); n < steps {
		m = abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall(fmt.Sprintf("call_%d", n), "echo", "{}")}}
		finish = abi.FinishToolCalls
	}
	for _, c := range m.Chunks() {
		if err := sink(c); err != nil {
			return nil, err
		}
	}
	return &abi.Response{Message: m, FinishReason: finish}, nil
}

func echo() tool.Tool {
	return tool.Func(abi.Tool{Name: "echo", Description: "Says yes.", Parameters: []byte(`{"type":"object"}`)},
		func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("yes"), nil })
}
