// Package middleware is for authors of middlewares in Go: code that runs in
// an agent's loop, as a WebAssembly module, and rewrites its state, wraps its
// model and tool calls, or stops it.
//
// A middleware is a value with hook methods: one for each point of the loop
// at which it wants to be called ([BeforeAgentHook], [WrapModelHook],
// [GateToolHook], …). It is registered in init:
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
// and built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o polite.wasm
//
// A module that is to be small is declared instead: see [Declare].
//
// # What a hook changes
//
// A hook changes the value that it is given; what it does not touch is not
// sent back and stays as it is. An error fails the hook (an [abi.Error] keeps
// its code); [Context.Stop] and [Context.Interrupt] make errors that end or
// pause the run.
//
// # Streams
//
// To change an answer on its way, piece by piece, [OnChunkHook] is enough. A
// wrapper that wants more of a stream (to hold a part back, to end it early, to
// make several pieces of one) reads it with next.Stream and hands on what it
// likes with [Context.Send]; it then returns nil, and what it sent is the answer:
//
//	func (w *words) WrapModel(ctx *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
//		stream := next.Stream(req)
//		for chunk := range stream.Chunks() {
//			if err := ctx.Send(chunk); err != nil {
//				return nil, err
//			}
//		}
//		return nil, stream.End()
//	}
//
// The same works where nothing is streamed: the answer then comes in one piece.
//
// # What lasts
//
// Memory is a cache: an instance of the module may be thrown away between two
// hooks of a run, and every run begins as configure left it. So fields that
// the configuration set are always there, and whatever a run is to remember
// belongs into a [Local] or a [Counter].
//
// # Testing
//
// Everything but the imports themselves is ordinary Go: package
// middlewaretest runs a middleware in a plain go test.
package middleware
