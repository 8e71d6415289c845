package echo_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/echo"
	"github.com/agent-runner/agent-runner/host/tool/builtin"
)

// The model calls the tools that the prompt names, and answers with their results.
func ExampleNew() {
	ctx := context.Background()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)
	tools, err := builtin.Set(nil)
	if err != nil {
		log.Fatal(err)
	}
	a, err := h.NewAgent(ctx, &host.AgentOptions{Model: echo.New(), Tools: tools})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	answer, err := a.Ask(ctx, `Use calculator {"expression": "6 * 7"}.`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
	// Output: 42
}
