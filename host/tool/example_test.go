package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
)

// This example makes a tool of a Go function.
func ExampleFunc() {
	double := tool.Func(abi.Tool{
		Name:        "double",
		Description: "Doubles a number.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
	}, func(_ context.Context, call abi.Call) (*abi.Result, error) {
		var in struct{ N int }
		if err := json.Unmarshal([]byte(call.Arguments), &in); err != nil {
			return nil, err
		}
		return abi.TextResult(fmt.Sprint(2 * in.N)), nil
	})

	res, err := double.Call(context.Background(), abi.Call{Name: "double", Arguments: `{"n": 21}`})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content)
	// Output: 42
}
