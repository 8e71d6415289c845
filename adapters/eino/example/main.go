// Command example is an ordinary Eino agent with untrusted middlewares. Its model is scripted, so the
// command needs no API key:
//
//	make -C ../.. examples
//	go run ./example ../../build/wasm/redact.wasm
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/agent-runner/agent-runner/abi"
	adapter "github.com/agent-runner/agent-runner/adapters/eino"
	"github.com/agent-runner/agent-runner/host"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run runs an Eino agent with the modules at the given paths, and prints its messages.
func run(ctx context.Context, paths []string) error {
	h, err := host.New(ctx, nil)
	if err != nil {
		return err
	}
	defer h.Close(ctx)

	// The modules run in sandboxes. Without grants, they cannot call models or tools, send requests
	// or use the store.
	options := &adapter.Options{OnEvent: printEvent}
	for _, path := range paths {
		m, err := h.Load(ctx, path, host.Limits{})
		if err != nil {
			return err
		}
		options.Middlewares = append(options.Middlewares, host.Middleware{Module: m})
	}
	middleware, release, err := adapter.New(ctx, h, options)
	if err != nil {
		return err
	}
	defer release()

	// The rest is an ordinary Eino agent.
	lookup, err := utils.InferTool("lookup", "finds a customer", func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return in.Name + ", ann@example.com, +49 30 1234567", nil
	})
	if err != nil {
		return err
	}
	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "clerk", Description: "finds customers", Instruction: "You are a clerk.", Model: &script{},
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{lookup}}},
		Handlers:    []adk.ChatModelAgentMiddleware{middleware},
	})
	if err != nil {
		return err
	}
	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent}).Query(ctx, "How do I reach Ann?")
	for {
		e, ok := events.Next()
		switch {
		case !ok:
			return nil
		case e.Err != nil:
			return e.Err
		case e.Output != nil && e.Output.MessageOutput != nil:
			m := e.Output.MessageOutput.Message
			fmt.Printf("%-10s %s\n", m.Role, m.Content)
		}
	}
}

// printEvent prints the custom events, log lines and faults of modules. It ignores other events.
func printEvent(_ context.Context, e abi.Event) {
	switch e.Type {
	case abi.EventCustom:
		fmt.Printf("  %s: %s %s\n", e.Entry, e.Name, e.Data)
	case abi.EventLog:
		fmt.Printf("  %s: %s\n", e.Entry, e.Text)
	case abi.EventFault:
		fmt.Printf("  %s: fault in %s: %s\n", e.Entry, e.Hook, e.Cause)
	}
}

// A script is a model that calls the tool and then repeats its result.
type script struct{}

// Generate calls the tool lookup. If the last message is a tool result, it answers with that result
// instead.
func (s *script) Generate(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	last := input[len(input)-1]
	if last.Role == schema.Tool {
		return schema.AssistantMessage("You find her here: "+last.Content, nil), nil
	}
	return schema.AssistantMessage("", []schema.ToolCall{{ID: "call_1", Type: "function",
		Function: schema.FunctionCall{Name: "lookup", Arguments: `{"name":"Ann"}`}}}), nil
}

// Stream returns the whole answer in one chunk.
func (s *script) Stream(
	ctx context.Context,
	input []*schema.Message,
	opts ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	m, err := s.Generate(ctx, input, opts...)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.Message{m}), nil
}
