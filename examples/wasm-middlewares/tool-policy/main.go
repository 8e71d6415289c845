// Command tool-policy is a middleware that says which tools may be called with
// which arguments. It judges as a gate: innermost, on the very bytes that the
// tool would get, whoever changed them before.
package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "tool-policy",
		Version:     "1.0.0",
		Description: "Allows and denies tool calls by tool and arguments.",
	}, &policy{Default: allow})
}

func main() {}

const (
	allow = "allow"
	deny  = "deny"
)

type policy struct {
	Rules   []*rule `json:"rules" doc:"the strictest of those that match a call counts"`
	Default string  `json:"default" doc:"what becomes of a call that no rule matches: allow or deny"`
}

// A rule matches a call of one of its tools whose arguments meet all its
// conditions.
type rule struct {
	Tools     []string     `json:"tools" doc:"names of tools; * stands for any characters"`
	Arguments []*condition `json:"arguments" doc:"all of them must hold"`
	Action    string       `json:"action" doc:"allow or deny"`
	Message   string       `json:"message" doc:"what the model is told of a call that this rule denies"`

	names []*regexp.Regexp
}

// Configure checks the rules and compiles their patterns.
func (p *policy) Configure(*middleware.Context) error {
	if p.Default != allow && p.Default != deny {
		return invalid("default: %q is not one of allow, deny", p.Default)
	}
	for i, r := range p.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		if r == nil {
			return invalid("%s: want an object", at)
		}
		if err := r.compile(at); err != nil {
			return err
		}
		if r.Action == allow && p.Default == allow {
			return invalid("%s.action: allow says nothing where the default is allow; set default to deny", at)
		}
	}
	return nil
}

func (r *rule) compile(at string) error {
	if r.Action != allow && r.Action != deny {
		return invalid("%s.action: %q is not one of allow, deny", at, r.Action)
	}
	if len(r.Tools) == 0 {
		return invalid("%s.tools: name at least one tool; * is all of them", at)
	}
	for j, name := range r.Tools {
		if name == "" {
			return invalid("%s.tools[%d]: a tool's name is never empty; * is all of them", at, j)
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, `.*`)
		r.names = append(r.names, regexp.MustCompile(`(?s)^`+pattern+`$`))
	}
	for j, c := range r.Arguments {
		at := fmt.Sprintf("%s.arguments[%d]", at, j)
		if c == nil {
			return invalid("%s: want an object", at)
		}
		if err := c.compile(at); err != nil {
			return err
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + fmt.Sprintf(format, args...)}
}

// GateTool denies if a rule that matches does, allows if one that matches
// does, and else does what the default says.
func (p *policy) GateTool(_ *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	arguments, err := decode(call.Arguments)
	if err != nil {
		return middleware.Deny(fmt.Sprintf("The policy cannot read the arguments of %s: %v", call.Name, err)), nil
	}
	decision := p.Default
	for _, r := range p.Rules {
		if !r.matches(call.Name, arguments) {
			continue
		}
		if r.Action == deny {
			return middleware.Deny(r.message(call.Name)), nil
		}
		decision = allow
	}
	if decision == deny {
		return middleware.Deny(fmt.Sprintf("The policy does not allow this call of %s.", call.Name)), nil
	}
	return middleware.Allow(), nil
}

func (r *rule) matches(tool string, arguments any) bool {
	named := false
	for _, name := range r.names {
		named = named || name.MatchString(tool)
	}
	for _, c := range r.Arguments {
		// What denies must not be dodged by one good value among bad ones,
		// and what allows not be had by one: so any value, or all of them.
		named = named && c.holds(arguments, r.Action == deny)
	}
	return named
}

func (r *rule) message(tool string) string {
	if r.Message != "" {
		return r.Message
	}
	return fmt.Sprintf("The policy does not allow calls of %s with these arguments.", tool)
}
