// Package tool defines the tools that an agent's model can call. Implementations are MCP
// servers (package mcp) and local built-in tools (package builtin).
package tool

import (
	"context"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// A Tool is a tool that a model can call. It must be safe for concurrent use.
type Tool interface {
	// Declaration returns the declaration for the model. All calls must return the same one.
	Declaration() abi.Tool
	// Call runs the tool. The arguments are a JSON object. If Call returns an error or a result with
	// IsError, the model receives an error result. If the error is an *abi.Interrupt, the run pauses
	// instead, and Call is repeated once the interrupt is answered; see [Answer]. Call must return
	// soon after ctx is done.
	Call(ctx context.Context, call abi.Call) (*abi.Result, error)
}

// Func returns a tool implemented by a Go function.
func Func(declaration abi.Tool, call func(ctx context.Context, call abi.Call) (*abi.Result, error)) Tool {
	return funcTool{declaration, call}
}

type funcTool struct {
	declaration abi.Tool
	call        func(context.Context, abi.Call) (*abi.Result, error)
}

func (t funcTool) Declaration() abi.Tool { return t.declaration }

func (t funcTool) Call(ctx context.Context, call abi.Call) (*abi.Result, error) {
	return t.call(ctx, call)
}

// Answer returns the answer to the interrupt of this call. ok is false in the first call.
func Answer(ctx context.Context) (answer json.RawMessage, ok bool) { return toolcall.Answer(ctx) }
