package host_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
)

func Example() {
	ctx := context.Background()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)

	policy, err := h.Load(ctx, "../testdata/modules/no-tools.wasm", host.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	a, err := h.NewAgent(ctx, &host.AgentOptions{
		Model:       scripted.New(scripted.Calls(abi.NewToolCall("c1", "launch", "{}")), scripted.Text("I may not launch it.")),
		Tools:       []tool.Tool{launch},
		Middlewares: []host.Middleware{{Name: "policy", Module: policy}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()

	for event, err := range a.Run(ctx, host.Input{Messages: []abi.Message{abi.User("Launch it!")}}) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Type {
		case abi.EventToolResult:
			fmt.Println(event.Call.Name, "→", event.Result.Content, "said", event.Source)
		case abi.EventRunFinished:
			fmt.Println(event.Message.Content)
		}
	}
	// Output:
	// launch → no tools today said policy
	// I may not launch it.
}

var launch = tool.Func(abi.Tool{Name: "launch", Description: "Launches the rocket."},
	func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("whoosh"), nil })
