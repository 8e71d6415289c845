// Command registered is the middleware of testdata/declared, registered by its type.
package main

import (
	"slices"

	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{Name: "tool-policy", Version: "1.0.0"}, &toolPolicy{})
}

func main() {}

type toolPolicy struct {
	Deny []string `json:"deny" doc:"tools that are never called"`
}

// GateTool denies calls of some tools.
func (p *toolPolicy) GateTool(_ *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	if slices.Contains(p.Deny, call.Name) {
		return middleware.Deny(call.Name + " is not allowed here"), nil
	}
	return middleware.Allow(), nil
}
