// Package middleware is the SDK for middlewares in Go. A middleware runs in an agent's
// loop as a WebAssembly module. It can rewrite the agent's state, wrap model and tool
// calls, or stop the run.
//
// A middleware is a value with hook methods, one for each point of the loop at which it
// is called ([BeforeAgentHook], [WrapModelHook], [GateToolHook], …). Register it in init:
//
//	func init() {
//		middleware.Register(middleware.Options{Name: "polite"}, &polite{})
//	}
//
//	func main() {}
//
//	type polite struct {
//		Phrase string `json:"phrase" doc:"what to begin the instruction with"`
//	}
//
//	func (p *polite) BeforeAgent(ctx *middleware.Context, run *middleware.AgentStart) error {
//		run.Instruction = p.Phrase + " " + run.Instruction
//		return nil
//	}
//
// and build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o polite.wasm
//
// For a smaller module, see [Declare].
//
// # Changes
//
// A hook changes the value that it receives. Only changes are sent to the host. If a hook
// returns an error, it fails; an [abi.Error] keeps its code. [Context.Stop] and
// [Context.Interrupt] return errors that end or pause the run.
//
// # Streams
//
// [OnChunkHook] changes a streamed answer chunk by chunk. A wrapper that needs more
// control, for instance to hold back a part or to end the stream early, reads it with
// next.Stream and passes chunks on with [Context.Send]. It then returns nil, and the chunks
// that it sent are the answer:
//
//	func (w *words) WrapModel(
//		ctx *middleware.Context, req *middleware.Request, next middleware.NextModel,
//	) (*abi.Response, error) {
//		stream := next.Stream(req)
//		for chunk := range stream.Chunks() {
//			if err := ctx.Send(chunk); err != nil {
//				return nil, err
//			}
//		}
//		return nil, stream.End()
//	}
//
// This also works without streaming: the answer then arrives at once.
//
// # State
//
// Memory is a cache: the host may discard an instance of the module between two hooks of a
// run, and every run begins with the memory that configure left. Fields set by the
// configuration are therefore always available. Use a [Local] or a [Counter] for data that
// must persist during a run.
//
// # Testing
//
// Package middlewaretest runs a middleware in a plain go test.
package middleware
