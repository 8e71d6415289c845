// Command declared is a small middleware whose hooks are declared explicitly. Tests measure its size.
package main

import (
	"slices"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	p := &toolPolicy{}
	d := middleware.Declare(middleware.Options{Name: "tool-policy", Version: "1.0.0"})
	d.Strings(&p.deny, "deny", "tools that are never called")
	d.GateTool(p)
	middleware.Serve(d)
}

func main() {}

type toolPolicy struct{ deny []string }

// GateTool denies calls of some tools.
func (p *toolPolicy) GateTool(_ *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	if slices.Contains(p.deny, call.Name) {
		return middleware.Deny(call.Name + " is not allowed here"), nil
	}
	return middleware.Allow(), nil
}
