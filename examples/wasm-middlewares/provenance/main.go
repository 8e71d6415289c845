// Command provenance is a middleware that prevents instructions in untrusted text from taking effect.
// A call that sends, pays, deletes, publishes or changes something may use only values that the user
// named, and must be one that the user's request asks for. A person decides about other calls.
package main

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "provenance",
		Version:     "1.0.0",
		Labels:      true,
		Description: "Asks before a call acts on values or instructions that are not the user's.",
	}, newPolicy())
}

func main() {}

func newPolicy() *policy {
	return &policy{Unasked: ask, Values: ask, Records: true, Documents: true, Models: []string{""}}
}

// Decisions about calls that the rules do not allow.
const (
	allow = "allow"
	ask   = "ask"
	deny  = "deny"
)

type policy struct {
	Tools     []*toolRule  `json:"tools" doc:"what tools do; the first entry that names a tool replaces what the module derives from its declaration"`
	Trust     []*trustRule `json:"trust" doc:"results, or fields of results, whose values count as the user's"`
	Unasked   string       `json:"unasked" doc:"decision about a call that the request does not ask for: ask, deny or allow"`
	Values    string       `json:"values" doc:"decision about a value that is not the user's: ask or deny"`
	Records   bool         `json:"records" doc:"allow a field of a JSON record that the request names by another field, such as the address of a contact by its name"`
	Documents bool         `json:"documents" doc:"allow the payee of a bill, and details of an account, from a document to which the request delegates them, as in: pay the bill x.txt"`
	Judge     bool         `json:"judge" doc:"let a model decide whether the request asks for a tool where the words do not show it; needs the grant model"`
	Models    []string     `json:"models" doc:"the judges, the next when one fails; the default is the agent's model"`
	Suggest   bool         `json:"suggest" doc:"answer each run with a draft of the configuration for the agent's tools, without a model call"`

	cache   sinks
	history history
}

// A toolRule overrides what the module derives from the names and declarations of tools.
type toolRule struct {
	Tools  []string `json:"tools" doc:"names of tools; * matches any characters"`
	Effect string   `json:"effect" doc:"read, send, pay, delete, create, change, share, publish, account or run; by default from the name"`
	Guard  []string `json:"guard" doc:"the arguments whose values must be the user's; * for all; by default from the declaration"`
}

// A trustRule selects results of tools and texts of modules that count as the user's words.
type trustRule struct {
	Tools   []string `json:"tools" doc:"names of tools; * matches any characters"`
	Fields  []string `json:"fields" doc:"keys of JSON objects; without it the whole result is trusted"`
	Modules []string `json:"modules" doc:"names of entries; what they write counts as the user's words"`
}

// Configure validates the configuration.
func (p *policy) Configure(*middleware.Context) error {
	if !slices.Contains([]string{ask, deny, allow}, p.Unasked) {
		return invalid("unasked: %q is not one of ask, deny, allow", p.Unasked)
	}
	if p.Values != ask && p.Values != deny {
		return invalid("values: %q is not one of ask, deny", p.Values)
	}
	for i, r := range p.Tools {
		switch {
		case r == nil || len(r.Tools) == 0:
			return invalid("tools[%d].tools: name at least one tool; * is all of them", i)
		case r.Effect != "" && effectNamed(r.Effect) == 0:
			return invalid("tools[%d].effect: %q is not one of %s", i, r.Effect, effectNames)
		}
	}
	for i, r := range p.Trust {
		switch {
		case r == nil || len(r.Tools)+len(r.Modules) == 0:
			return invalid("trust[%d]: name at least one tool in tools, or one entry in modules", i)
		case len(r.Fields) > 0 && len(r.Tools) == 0:
			return invalid("trust[%d].fields: name the tools whose results have the fields", i)
		}
	}
	if len(p.Models) == 0 {
		p.Models = []string{""}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + middleware.Sprintf(format, args...)}
}

// ruleFor returns the first entry of Tools that names the tool, or nil.
func (p *policy) ruleFor(tool string) *toolRule {
	for _, r := range p.Tools {
		if names.Match(r.Tools, tool) {
			return r
		}
	}
	return nil
}
