// Package eino adds WebAssembly middlewares, which may be untrusted, and native middlewares of this
// project to an agent of CloudWeGo's Eino. [New] returns a chain of middlewares as one
// ChatModelAgentMiddleware.
//
//	h, err := host.New(ctx, nil)
//	redact, err := h.Load(ctx, "redact.wasm", host.Limits{})
//	mw, release, err := eino.New(ctx, h, &eino.Options{Middlewares: []host.Middleware{{Module: redact}}})
//	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
//		…
//		Handlers: []adk.ChatModelAgentMiddleware{mw},
//	})
//
// Eino runs the agent loop, so modules see only the data that Eino passes to its middlewares.
// README.md lists the differences.
package eino
