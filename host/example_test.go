package host_test

import (
	"context"
	"errors"
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
		Model: scripted.New(
			scripted.Calls(abi.NewToolCall("c1", "launch", "{}")),
			scripted.Text("I may not launch it."),
		),
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

func ExampleAgent_Ask() {
	ctx := context.Background()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)
	a, err := h.NewAgent(ctx, &host.AgentOptions{Model: scripted.New(scripted.Text("Paris."))})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	answer, err := a.Ask(ctx, "What is the capital of France?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
	// Output: Paris.
}

// This example finds the cause of a failed run with errors.As.
func ExampleError() {
	ctx := context.Background()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)
	a, err := h.NewAgent(ctx, &host.AgentOptions{
		Model: scripted.New(
			scripted.Calls(abi.NewToolCall("c1", "launch", "{}")),
			scripted.Calls(abi.NewToolCall("c2", "launch", "{}")),
		),
		Tools: []tool.Tool{launch}, MaxSteps: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	_, err = a.Ask(ctx, "Launch it twice!")
	var ended *host.Error
	var limit *host.LimitError
	fmt.Println(errors.As(err, &ended) && ended.FinishReason == abi.RunMaxSteps, errors.As(err, &limit))
	// Output: true true
}

func ExampleHost_NewAgentFromFile() {
	ctx := context.Background()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)
	file, err := host.LoadFile("../testdata/agents/echo.yaml")
	if err != nil {
		log.Fatal(err)
	}
	a, err := h.NewAgentFromFile(
		ctx,
		file,
		&host.FileOptions{Model: scripted.New(scripted.Text("I am " + file.Name + "."))},
	)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	answer, err := a.Ask(ctx, "Who are you?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
	// Output: I am echo.
}

func ExampleHost_Load() {
	ctx := context.Background()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)
	m, err := h.Load(ctx, "../testdata/modules/no-tools.wasm", host.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Info().Hooks)
	// Output: [gate_tool]
}
