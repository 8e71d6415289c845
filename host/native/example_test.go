package native_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/host/tool"
)

// ask runs an agent with one middleware and prints its answer.
func ask(mw *native.Middleware, prompt string, replies ...scripted.Reply) {
	ctx := context.Background()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)
	clock := tool.Func(abi.Tool{Name: "clock", Description: "Returns the time."},
		func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("12:00"), nil })
	a, err := h.NewAgent(ctx, &host.AgentOptions{
		Model:       scripted.New(replies...),
		ModelName:   "small",
		Tools:       []tool.Tool{clock},
		Middlewares: []host.Middleware{{Name: "example", Native: mw}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	answer, err := a.Ask(ctx, prompt)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(answer)
}

func ExampleMiddleware() {
	ask(&native.Middleware{
		AfterModel: func(_ context.Context, _ *native.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			res := *in.Response
			res.Message.Content = abi.Text(strings.ToUpper(res.Message.Content.String()))
			return &abi.AfterModelAnswer{Response: &res}, nil
		},
	}, "Say hello.", scripted.Text("hello"))
	// Output: HELLO
}

func ExampleWithTools() {
	dice := native.Tool{
		Tool: abi.Tool{Name: "dice", Description: "Rolls a die."},
		Call: func(context.Context, abi.Call) (*abi.Result, error) {
			fmt.Println("rolling")
			return abi.TextResult("4"), nil
		},
	}
	ask(native.WithTools(dice), "Roll a die.", scripted.Calls(abi.NewToolCall("c1", "dice", "{}")),
		scripted.Text("It is a 4."))
	// Output:
	// rolling
	// It is a 4.
}

func ExampleWithModelWrapper() {
	ask(
		native.WithModelWrapper(func(
			ctx context.Context, req abi.Request, next func(context.Context, abi.RequestPatch) (*abi.Response, error),
		) (*abi.Response, error) {
			fmt.Println("model:", req.Model)
			return next(ctx, abi.RequestPatch{})
		}),
		"Say hello.",
		scripted.Text("hello"),
	)
	// Output:
	// model: small
	// hello
}

func ExampleWithToolCallWrapper() {
	ask(
		native.WithToolCallWrapper(func(
			ctx context.Context, call abi.Call, next func(context.Context, abi.CallPatch) (*abi.Result, error),
		) (*abi.Result, error) {
			res, err := next(ctx, abi.CallPatch{})
			fmt.Println(call.Name, "→", res.Content)
			return res, err
		}),
		"What time is it?",
		scripted.Calls(abi.NewToolCall("c1", "clock", "{}")),
		scripted.Text("Noon."),
	)
	// Output:
	// clock → 12:00
	// Noon.
}

func ExampleWithTools_returnDirectly() {
	report := native.Tool{
		Tool:           abi.Tool{Name: "report", Description: "Writes the report, which is the answer."},
		Call:           func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("All is well."), nil },
		ReturnDirectly: true,
	}
	ask(native.WithTools(report), "Report.", scripted.Calls(abi.NewToolCall("c1", "report", "{}")),
		scripted.Text("The model is not called again."))
	// Output: All is well.
}

func ExampleWithToolCallStream() {
	mw := native.WithToolCallStream(func(
		_ context.Context, call abi.Call, result *native.Stream[abi.Result], send func(...abi.Chunk) error,
	) error {
		for chunk := range result.Chunks() {
			fmt.Println(call.Name, "→", chunk.Text)
			chunk.Text += " sharp"
			if err := send(chunk); err != nil {
				return err
			}
		}
		return result.End()
	})
	mw.AfterTool = func(_ context.Context, _ *native.Call, in *abi.AfterToolInput) (*abi.AfterToolAnswer, error) {
		fmt.Println("result:", in.Result.Content)
		return nil, nil
	}
	ask(mw, "What time is it?", scripted.Calls(abi.NewToolCall("c1", "clock", "{}")), scripted.Text("Noon."))
	// Output:
	// clock → 12:00
	// result: 12:00 sharp
	// Noon.
}
