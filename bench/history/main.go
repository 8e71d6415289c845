// Command history measures how costs grow with the length of a run's history:
//
//	history messages LOOK.wasm    a step, with modules that read the conversation
//	history journal LOOK.wasm     a step of a journaled run
//	history chunks REDACT.wasm    a chunk of a stream that modules process
//	history events LOOK.wasm      an event of a run, live and read again
//
// The modules are guests/look and guests/five. Each measurement is in the file of its name. The
// figures are medians of runs, without the first, which warms up.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/command"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/tool"
)

func main() {
	command.Main("history TABLE GUEST.wasm", func(ctx context.Context, h *host.Host, args []string) error {
		tables := map[string]func(context.Context, *host.Host, *host.Module) error{
			"messages": messages,
			"journal":  journaled,
			"chunks":   chunks,
			"events":   events,
		}
		table := tables[args[0]]
		if table == nil {
			return fmt.Errorf("there is no table %q: want messages, journal, chunks or events", args[0])
		}
		limits := host.Limits{}
		limits.HookTime = time.Minute // on a busy machine, a look at 20,000 messages may take longer than the default
		m, err := h.Load(ctx, args[1], limits)
		if err != nil {
			return err
		}
		return table(ctx, h, m)
	})
}

// conversation returns n messages of 1 KB.
func conversation(n int) []abi.Message {
	filler := strings.Repeat("They are baked at five and delivered at seven. ", 21)
	out := make([]abi.Message, n)
	for i := range out {
		out[i] = abi.User(fmt.Sprintf("%d. %s", i, filler))
	}
	return out
}

// echo returns a tool that answers at once.
func echo() tool.Tool {
	return tool.Func(abi.Tool{Name: "echo", Description: "Says yes.", Parameters: []byte(`{"type":"object"}`)},
		func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("yes"), nil })
}
