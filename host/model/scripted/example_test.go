package scripted_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

// This example answers two requests with scripted replies and counts the recorded requests.
func ExampleNew() {
	m := scripted.New(
		scripted.Calls(abi.NewToolCall("1", "time", "{}")),
		scripted.Text("It is noon."),
	)
	for range 2 {
		res, err := m.Generate(
			context.Background(),
			&model.Request{Messages: []abi.Message{abi.User("What time is it?")}},
			nil,
		)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d tool calls, text %q\n", len(res.Message.ToolCalls), res.Message.Content.String())
	}
	fmt.Println(len(m.Requests()), "requests")
	// Output:
	// 1 tool calls, text ""
	// 0 tool calls, text "It is noon."
	// 2 requests
}
