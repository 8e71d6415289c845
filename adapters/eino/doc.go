// Package eino puts untrusted WebAssembly middlewares, or native ones of this
// project, into an agent of CloudWeGo's Eino: [New] makes a
// ChatModelAgentMiddleware of a chain of them.
//
//	h, err := host.New(ctx, nil)
//	redact, err := h.Load(ctx, "redact.wasm", host.Limits{})
//	mw, err := eino.New(ctx, h, &eino.Options{Middlewares: []host.Middleware{{Module: redact}}})
//	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
//		…
//		Handlers: []adk.ChatModelAgentMiddleware{mw},
//	})
//
// Eino's loop stays Eino's: what it does not tell its middlewares, ours do not
// see either. README.md has the list of what differs.
package eino
