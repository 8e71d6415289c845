package builtin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool/builtin"
)

// This example selects a tool by name.
func ExampleSet() {
	tools, err := builtin.Set(&builtin.Options{Tools: []string{"calculator"}})
	if err != nil {
		log.Fatal(err)
	}
	res, err := tools[0].Call(
		context.Background(),
		abi.Call{Name: "calculator", Arguments: `{"expression": "6 * 7"}`},
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content)
	// Output: 42
}
