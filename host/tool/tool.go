// Package tool has the tools that an agent's model may call: MCP servers
// (package mcp) and a few that need nothing but this machine (package builtin).
package tool

import (
	"context"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
)

// A Tool is one thing that a model may call. It is called by many runs, and
// by one run in parallel.
type Tool interface {
	// Declaration is what the model is told. It does not change.
	Declaration() abi.Tool
	// Call runs the tool. The arguments are a JSON object. A result with
	// IsError and an error are the same to the model: an error result; but an
	// error that is an *abi.Interrupt pauses the run, and Call is made again
	// when it was answered, see [Answer]. Call returns soon after ctx ends.
	Call(ctx context.Context, call abi.Call) (*abi.Result, error)
}

// Func is a tool that is a Go function.
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

type answerKey struct{}

// WithAnswer returns a context for the call of a tool that interrupted the
// run and was answered.
func WithAnswer(ctx context.Context, answer json.RawMessage) context.Context {
	return context.WithValue(ctx, answerKey{}, answer)
}

// Answer is what the tool's interrupt of this call was answered with; ok is
// false in the first call.
func Answer(ctx context.Context) (answer json.RawMessage, ok bool) {
	answer, ok = ctx.Value(answerKey{}).(json.RawMessage)
	return answer, ok
}
