// Command codec measures the cost of reading a 1 KB hook input and writing its answer in a guest,
// with this project's codec and with encoding/json:
//
//	codec CODEC.wasm
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/command"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
)

const times = 400

func main() { command.Main("codec CODEC.wasm", measure) }

func measure(ctx context.Context, h *host.Host, args []string) error {
	m, err := h.Load(ctx, args[0], host.Limits{})
	if err != nil {
		return err
	}
	fmt.Println(
		"| in a Go guest, 1 KB read and 600 bytes written | fuel | us | against encoding/json |\n|---|---|---|---|",
	)
	var base float64
	for _, how := range []string{"json", "sdk"} {
		var best []float64
		var fuel float64
		for range 9 {
			f, us, err := once(ctx, h, m, how, times)
			if err != nil {
				return err
			}
			f0, us0, err := once(ctx, h, m, how, 0)
			if err != nil {
				return err
			}
			fuel = (f - f0) / times
			best = append(best, (us-us0)/times)
		}
		us := slices.Min(best)
		if how == "json" {
			base = us
		}
		fmt.Printf(
			"| %s | %.0f | %.1f | %.1f times as fast |\n",
			map[string]string{"json": "encoding/json, plain structs", "sdk": "the SDK's"}[how],
			fuel,
			us,
			base/us,
		)
	}
	return nil
}

// once runs an agent whose gate reads its input and writes its answer n times, with the named
// codec. It returns the fuel and the time in microseconds that the gate's module used.
func once(ctx context.Context, h *host.Host, m *host.Module, how string, n int) (fuel, us float64, err error) {
	config, _ := json.Marshal(map[string]any{"how": how, "times": n})
	echo := tool.Func(abi.Tool{Name: "echo", Description: "Says yes.", Parameters: []byte(`{"type":"object"}`)},
		func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("yes"), nil })
	a, err := h.NewAgent(
		ctx,
		&host.AgentOptions{
			Model:       scripted.New(scripted.Calls(abi.NewToolCall("call_1", "echo", "{}")), scripted.Text("done")),
			Tools:       []tool.Tool{echo},
			Middlewares: []host.Middleware{{Name: "codec", Module: m, Config: config}},
		},
	)
	if err != nil {
		return 0, 0, err
	}
	defer a.Close()
	for e, err := range a.Run(ctx, host.Input{Messages: []abi.Message{abi.User("go")}}) {
		if err != nil {
			return 0, 0, err
		}
		if e.Type == abi.EventToolResult && e.Result.IsError {
			return 0, 0, fmt.Errorf("%s", e.Result.Content)
		}
		if e.Type == abi.EventRunFinished {
			return float64(e.Entries[0].Fuel), float64(e.Entries[0].WallUS), nil
		}
	}
	return 0, 0, fmt.Errorf("the run did not finish")
}
