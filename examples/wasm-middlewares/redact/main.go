// Command redact is a middleware that hides personal data: e-mail addresses,
// card numbers, IP addresses, IBANs and patterns of one's own, in what the
// model is sent, in what tools say, and in what the model answers, also when
// it streams and a piece ends in the middle of an address.
package main

import (
	"bytes"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "redact",
		Version:     "1.0.0",
		Description: "Hides e-mail addresses, card numbers, IP addresses, IBANs and patterns of one's own.",
	}, newRedact())
}

func main() {}

func newRedact() *redact {
	return &redact{
		Detect: []string{"email", "credit_card", "ip", "iban"}, Strategy: strategyRedact,
		Input: true, Output: true, ToolResults: true,
	}
}

type redact struct {
	Detect     []string          `json:"detect" doc:"which of email, credit_card, ip, iban to look for"`
	Patterns   []*pattern        `json:"patterns" doc:"what else to look for"`
	Strategy   string            `json:"strategy" doc:"what stands in the place of a find: redact, mask or hash"`
	Strategies map[string]string `json:"strategies" doc:"another strategy for some kinds, by their names"`
	Salt       string            `json:"salt" doc:"the key of hashes: without it, short values can be guessed"`

	Input         bool `json:"input" doc:"hide in the user's messages, on the wire; the run's state keeps them"`
	Output        bool `json:"output" doc:"hide in the model's answers"`
	ToolResults   bool `json:"tool_results" doc:"hide in what tools answer"`
	ToolArguments bool `json:"tool_arguments" doc:"hide in the arguments that the model calls tools with"`

	scan scanner
}

// Configure compiles what to look for.
func (r *redact) Configure(*middleware.Context) (err error) {
	r.scan, err = newScanner(r)
	return err
}

// BeforeModel hides in the messages as they are sent. They come back in every
// call, and the state keeps what the user wrote.
func (r *redact) BeforeModel(ctx *middleware.Context, call *middleware.ModelStart) error {
	found := finds{}
	for i, m := range call.Messages.All() {
		if r.message(&m, found) {
			call.Messages.Set(i, m)
		}
	}
	return found.tell(ctx, "request")
}

// AfterModelRewriteState hides in an answer that did not come by OnChunk,
// because a module made it.
func (r *redact) AfterModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	found := finds{}
	if m, ok := state.Messages.Last(); ok && r.message(&m, found) {
		state.Messages.Set(state.Messages.Len()-1, m)
	}
	return found.tell(ctx, "output")
}

// AfterAgent hides in a final answer that another module has changed.
func (r *redact) AfterAgent(ctx *middleware.Context, run *middleware.AgentEnd) error {
	found := finds{}
	if run.Final != nil {
		r.message(run.Final, found)
	}
	return found.tell(ctx, "output")
}

// AfterTool hides in a tool's result, or in why it failed.
func (r *redact) AfterTool(ctx *middleware.Context, end *middleware.ToolEnd) error {
	if !r.ToolResults {
		return nil
	}
	found := finds{}
	if end.Result != nil {
		end.Result.Content, _ = r.content(end.Result.Content, found)
	}
	if end.Err != nil {
		end.Err.Message = r.scan.all(end.Err.Message, found)
	}
	return found.tell(ctx, "tool_result")
}

// BeforeTool hides in the decoded arguments what escapes may have hidden from
// OnChunk.
func (r *redact) BeforeTool(ctx *middleware.Context, call *middleware.ToolStart) error {
	if !r.ToolArguments || call.Arguments == "" {
		return nil
	}
	var arguments any
	d := json.NewDecoder(bytes.NewReader([]byte(call.Arguments)))
	d.UseNumber()
	if err := d.Decode(&arguments); err != nil {
		return err
	}
	found := finds{}
	if arguments = r.value(arguments, found); len(found) == 0 {
		return nil
	}
	if err := call.SetArgs(arguments); err != nil {
		return err
	}
	return found.tell(ctx, "tool_arguments")
}

// value hides in all strings and numbers of a JSON value.
func (r *redact) value(value any, found finds) any {
	switch v := value.(type) {
	case string:
		return r.scan.all(v, found)
	case json.Number:
		if hidden := r.scan.all(string(v), found); hidden != string(v) {
			return hidden
		}
	case map[string]any:
		for key, item := range v {
			v[key] = r.value(item, found)
		}
	case []any:
		for i, item := range v {
			v[i] = r.value(item, found)
		}
	}
	return value
}

// message hides in a message what is to be hidden in those of its role.
func (r *redact) message(m *abi.Message, found finds) (changed bool) {
	switch {
	case m.Role == abi.RoleUser && r.Input, m.Role == abi.RoleTool && r.ToolResults:
		m.Content, changed = r.content(m.Content, found)
	case m.Role == abi.RoleAssistant && r.Output:
		m.Content, changed = r.content(m.Content, found)
		if hidden := r.scan.all(m.ReasoningContent, found); hidden != m.ReasoningContent {
			m.ReasoningContent, changed = hidden, true
		}
	}
	for i := range m.ToolCalls {
		if !r.ToolArguments {
			break
		}
		call := &m.ToolCalls[i].Function
		if hidden := r.scan.json(call.Arguments, found); hidden != call.Arguments {
			call.Arguments, changed = hidden, true
		}
	}
	return changed
}

func (r *redact) content(c abi.Content, found finds) (abi.Content, bool) {
	if !c.IsParts() {
		hidden := r.scan.all(c.String(), found)
		if hidden == c.String() {
			return c, false
		}
		return abi.Text(hidden), true
	}
	parts, changed := c.Parts(), false
	for i := range parts {
		if hidden := r.scan.all(parts[i].Text, found); hidden != parts[i].Text {
			parts[i].Text, changed = hidden, true
		}
	}
	return abi.Parts(parts...), changed
}
