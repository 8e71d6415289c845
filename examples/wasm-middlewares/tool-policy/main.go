// Command tool-policy is a middleware that decides which tools may be called with which arguments.
// It is a gate: it judges the exact bytes that the tool would receive, after the changes by all
// other modules.
package main

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/disguise"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "tool-policy",
		Version:     "1.1.0",
		Description: "Allows, denies and asks about tool calls by tool and arguments.",
	}, newPolicy())
}

func main() {}

func newPolicy() *policy { return &policy{Default: allow, Decode: true} }

// Actions of rules.
const (
	allow = "allow"
	ask   = "ask"
	deny  = "deny"
)

type policy struct {
	Rules   []*rule `json:"rules" doc:"the strictest of those that match a call counts"`
	Default string  `json:"default" doc:"what becomes of a call that no rule matches: allow, ask or deny"`
	Decode  bool    `json:"decode" doc:"rules that deny or ask also match text that a value hides in base64, escapes, JSON inside a string, or look-alike letters"`
}

// A rule matches a call of one of its tools whose arguments meet all its
// conditions.
type rule struct {
	Tools     []string     `json:"tools" doc:"names of tools; * matches any characters"`
	Arguments []*condition `json:"arguments" doc:"all of them must hold"`
	Action    string       `json:"action" doc:"allow, ask or deny"`
	Message   string       `json:"message" doc:"the message about a call that this rule denies, for the model, or that it asks about, for the person"`
}

// Configure validates the rules and compiles their patterns.
func (p *policy) Configure(*middleware.Context) error {
	if !action(p.Default) {
		return invalid("default: %q is not one of allow, ask, deny", p.Default)
	}
	for i, r := range p.Rules {
		at := middleware.Sprintf("rules[%d]", i)
		if r == nil {
			return invalid("%s: want an object", at)
		}
		if err := r.compile(at); err != nil {
			return err
		}
		if r.Action == allow && p.Default == allow {
			return invalid("%s.action: allow has no effect if the default is allow; set default to deny or ask", at)
		}
	}
	return nil
}

func action(name string) bool { return name == allow || name == ask || name == deny }

func (r *rule) compile(at string) error {
	if !action(r.Action) {
		return invalid("%s.action: %q is not one of allow, ask, deny", at, r.Action)
	}
	if len(r.Tools) == 0 {
		return invalid("%s.tools: name at least one tool; * is all of them", at)
	}
	for j, name := range r.Tools {
		if name == "" {
			return invalid("%s.tools[%d]: a tool's name is never empty; * is all of them", at, j)
		}
	}
	for j, c := range r.Arguments {
		at := middleware.Sprintf("%s.arguments[%d]", at, j)
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
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + middleware.Sprintf(format, args...)}
}

// GateTool applies the strictest matching rule, or the default if none matches. It denies a call
// whose arguments cannot be read or contain too much encoded text to check.
func (p *policy) GateTool(_ *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	arguments, err := decode(call.Arguments)
	if err != nil {
		return middleware.Deny(middleware.Sprintf("The policy cannot read the arguments of %s: %v", call.Name, err)), nil
	}
	strictest, by := "", -1
	for i, r := range p.Rules {
		if strictness(r.Action) <= strictness(strictest) {
			continue
		}
		matches, sure := r.matches(call.Name, arguments, p.Decode)
		if !sure {
			return middleware.Deny(
				middleware.Sprintf("The policy cannot check the arguments of %s: they contain too much encoded text.", call.Name),
			), nil
		}
		if matches {
			strictest, by = r.Action, i
		}
	}
	return p.decision(call.Name, strictest, by), nil
}

// strictness returns the rank of an action, from 0 for none to 3 for deny.
func strictness(action string) int { return slices.Index([]string{"", allow, ask, deny}, action) }

// decision returns the gate's decision for the action of the rule with index by. If by is negative,
// it applies the default instead.
func (p *policy) decision(tool, action string, by int) middleware.Decision {
	var r rule
	if by >= 0 {
		r = *p.Rules[by]
	} else {
		action = p.Default
	}
	switch {
	case action == allow:
		return middleware.Allow()
	case action == ask:
		text := r.Message
		if text == "" {
			text = middleware.Sprintf("May %s be called with these arguments?", tool)
		}
		return middleware.Ask(text).With(map[string]int{"rule": by})
	case r.Message != "":
		return middleware.Deny(r.Message)
	case by >= 0:
		return middleware.Deny(middleware.Sprintf("The policy does not allow calls of %s with these arguments.", tool))
	default:
		return middleware.Deny(middleware.Sprintf("The policy does not allow this call of %s.", tool))
	}
}

// matches reports whether the rule applies to a call of tool with arguments. If decode is set, it
// also looks at the decoded forms of values. sure is false if the arguments contain too much
// encoded text to check.
func (r *rule) matches(tool string, arguments any, decode bool) (matches, sure bool) {
	if !names.Match(r.Tools, tool) {
		return false, true
	}
	for _, c := range r.Arguments {
		// A rule that denies or asks applies if any value matches, so one good value does
		// not hide a bad one. A rule that allows applies only if all values match.
		values := at(arguments, c.keys)
		if r.Action == allow {
			if !c.all(values) {
				return false, true
			}
			continue
		}
		if decode {
			if values, sure = disguised(values); !sure {
				return false, false
			}
		}
		if !slices.ContainsFunc(values, c.pattern.MatchString) {
			return false, true
		}
	}
	return true, true
}

// disguised returns the values and their other forms: decoded, as a path, and as a number. complete
// is false if a value has too many forms.
func disguised(values []string) (out []string, complete bool) {
	for _, v := range values {
		forms, complete := disguise.Forms(v)
		if !complete {
			return nil, false
		}
		for _, f := range forms {
			out = append(out, f)
			for _, read := range []string{asPath(f), asNumber(f)} {
				if read != f {
					out = append(out, read)
				}
			}
		}
	}
	return out, true
}
