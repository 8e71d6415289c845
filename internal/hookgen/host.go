package main

import (
	"fmt"
	"strings"
)

// runHooks returns the hooks of a run, without those that build an image.
func (s *source) runHooks() []hook {
	var out []hook
	for _, h := range s.hooks {
		if h.During != "load" {
			out = append(out, h)
		}
	}
	return out
}

// publicMiddleware generates the struct of a middleware written in Go for embedders.
func publicMiddleware(s *source) string { return goFile("package native", s.middleware("Call")) }

// middleware returns the struct of a middleware written in Go. call is the type of a hook's call.
func (s *source) middleware(call string) string {
	var fields strings.Builder
	for _, h := range s.runHooks() {
		fmt.Fprintf(&fields, "%s func(context.Context, *%s, *abi.%s) (*abi.%s, error)\n", h.Go, call, h.Input(), h.Answer())
	}
	return `// A Middleware is a middleware written in Go. It has the hooks whose functions are set. A
// nil answer changes nothing, except that GateTool and CallTool must answer; an error
// corresponds to a module's hook returning 1. A panic is a fault.
//
// The functions are called concurrently by many runs. They should store the state of a run in its
// run-local values.
type Middleware struct {
	// Description describes the middleware. Its fields Hooks and Messages are ignored: the middleware
	// has the hooks that are set, and reads messages with [` + call + `.List].
	Description abi.Description

` + fields.String() + `}
`
}

// nativeMiddleware generates the struct of a middleware written in Go for the chain, and the calls
// of its functions.
func nativeMiddleware(s *source) string {
	var set, cases strings.Builder
	for _, h := range s.runHooks() {
		fmt.Fprintf(&set, "{contract.Hook%[1]s, n.%[1]s != nil},\n", h.Go)
		fmt.Fprintf(&cases, "case contract.Hook%[1]s:\nreturn answer(n.%[1]s, ctx, c, in, out)\n", h.Go)
	}
	return goFile(
		"package inproc",
		s.middleware("hook.Call")+`
// hooks returns the hooks whose functions are set.
func (n *Middleware) hooks() []abi.Hook {
	var out []abi.Hook
	for _, h := range []struct {
		name abi.Hook
		set  bool
	}{
`+set.String()+`	} {
		if h.set {
			out = append(out, h.name)
		}
	}
	return out
}

// dispatch calls the function of a hook.
func (n *Middleware) dispatch(ctx context.Context, c *hook.Call, in, out any) error {
	switch c.Hook {
`+cases.String()+`	default:
		return fmt.Errorf("no middleware has the hook %q", c.Hook)
	}
}
`,
	)
}

// puppetExports generates the exports of the puppet of the random compositions. Puppets neither
// observe nor translate.
func puppetExports(s *source) string {
	var b strings.Builder
	for _, h := range s.runHooks() {
		if h.During != "event" && h.During != "client" {
			fmt.Fprintf(&b, "\n//go:wasmexport %s\nfunc %s(n int32) int32 { return play[abi.%s, abi.%s](contract.Hook%s, n) }\n",
				h.Name, lowerCamel(h.Name), h.Input(), h.Answer(), h.Go)
		}
	}
	return goFile("//go:build wasip1\n\npackage main", b.String())
}

// gluttonExports generates the exports of the greedy module of the exhaustion tests.
func gluttonExports(s *source) string {
	var b strings.Builder
	for _, h := range s.runHooks() {
		fmt.Fprintf(&b, "\n//go:wasmexport %[1]s\nfunc %[2]s(int32) int32 { return serve(%[1]q) }\n",
			h.Name, lowerCamel(h.Name))
	}
	return goFile("//go:build wasip1\n\npackage main", b.String())
}
