// Command redact is a middleware that hides personal data: e-mail addresses, card numbers,
// IP addresses, IBANs and custom patterns. It changes the messages that a run begins with,
// requests to the model, tools' results, and the model's answers, even where a streamed
// chunk ends in the middle of an address.
package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/values"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "redact",
		Version:     "1.3.0",
		Description: "Hides e-mail addresses, card numbers, IP addresses, IBANs and patterns of one's own.",
	}, newRedact())
}

func main() {}

func newRedact() *redact {
	return &redact{
		Detect: []string{"email", "credit_card", "ip", "iban"}, Strategy: strategyRedact,
		Decode: true, Input: true, Output: true, ToolResults: true, RestoreArguments: true, RestoreOutput: true,
		Sinks: defaultSinks(),
	}
}

type redact struct {
	Detect     []string          `json:"detect" doc:"which of email, credit_card, ip, iban to look for"`
	Patterns   []*pattern        `json:"patterns" doc:"what else to look for"`
	Strategy   string            `json:"strategy" doc:"the replacement of a match: redact, mask, hash or token; block rejects the text instead"`
	Strategies map[string]string `json:"strategies" doc:"another strategy for some kinds, by their names"`
	Salt       string            `json:"salt" doc:"the key of hashes: without it, short values can be guessed"`

	Decode bool `json:"decode" doc:"also find what look-alike and invisible characters, escapes, base64 or hexadecimal digits hide"`

	Input         bool `json:"input" doc:"hide in the user's messages, in requests and in the run's state"`
	Output        bool `json:"output" doc:"hide in the model's answers"`
	ToolResults   bool `json:"tool_results" doc:"hide in what tools answer"`
	ToolArguments bool `json:"tool_arguments" doc:"hide in the arguments that the model calls tools with"`

	RestoreArguments bool `json:"restore_arguments" doc:"with token or reversible: tokens and placeholders in the arguments of a tool call are replaced by the original values"`
	RestoreOutput    bool `json:"restore_output" doc:"with token or reversible: tokens and placeholders in an answer to the user are replaced by the original values"`

	Reversible bool     `json:"reversible" doc:"with redact: requests have placeholders such as [EMAIL_1], which are replaced by the original values in the model's answers"`
	Sinks      []string `json:"sinks" doc:"with reversible: names of tools that send data out; they get only values that the user wrote; * matches any characters, case does not matter"`

	labels   []string // labels of the kinds with tokens
	reversed []string // labels of the kinds with placeholders
	blocks   bool     // some kind has the strategy block
	scan     scanner  // all kinds, for requests to the model
	given    scanner  // all kinds and lookalikes of tokens, for text that the model did not write
	said     scanner  // all kinds, for text that the model wrote
	rest     scanner  // the kinds without tokens, for text in which values with tokens remain
	answers  scanner  // for the model's output
	calls    scanner  // for the arguments of calls in requests
	made     scanner  // for the arguments of calls in the model's output
	begun    scanner  // for the arguments of calls in the initial messages
	back     scanner  // replaces tokens in arguments by their values
	sinks    []string // Sinks in lower case

	vault vault // the running hook's vault
	book  book  // the running hook's book
}

// Configure compiles the scanners.
func (r *redact) Configure(*middleware.Context) (err error) {
	if r.scan, err = newScanner(r); err != nil {
		return err
	}
	r.blocks = slices.ContainsFunc(r.scan.kinds, func(k *kind) bool { return k.blocks })
	r.given, r.said, r.rest, r.answers, r.back = r.scan, r.scan, r.scan.only(permanent), r.scan, scanner{}
	r.calls = r.scan.only(func(k *kind) bool { return r.ToolArguments || r.RestoreArguments && k.token != "" })
	r.made = r.calls
	r.begun = r.rest.only(func(*kind) bool { return r.ToolArguments })
	r.labels, r.reversed = r.scan.labels(), nil
	if r.Reversible {
		return r.reverse()
	}
	if len(r.labels) > 0 {
		r.given, r.back = r.scan.with(r.foreign()), scanner{kinds: []*kind{r.restorer()}}
		if r.RestoreOutput {
			r.answers = r.rest.with(r.restorer())
		}
	}
	return nil
}

// reverse sets the scanners for placeholders: OnChunk restores the model's output, so that the other
// hooks after the model leave the kinds with placeholders alone.
func (r *redact) reverse() error {
	r.labels, r.reversed = nil, r.labels
	if len(r.reversed) == 0 {
		return invalid("reversible: no kind has the strategy redact")
	}
	r.sinks = nil
	for _, s := range r.Sinks {
		r.sinks = append(r.sinks, strings.ToLower(s))
	}
	r.given, r.said = r.scan.with(r.verbatim(false)), r.scan.with(r.verbatim(true))
	r.answers, r.made = r.rest, r.begun
	if len(r.calls.kinds) > 0 {
		r.calls = r.calls.with(r.verbatim(true))
	}
	return nil
}

// refused holds the kind of data that ends the run before its first model call.
var refused = middleware.Local[string]("refused")

// BeforeAgent redacts the messages that the run begins with. It changes the run's state, so
// that the run is stored without the data. Data of kinds with tokens stays in the state,
// because tools and the user get it back.
func (r *redact) BeforeAgent(ctx *middleware.Context, run *middleware.AgentStart) error {
	if len(r.rest.kinds) == 0 {
		return nil
	}
	found := finds{}
	for i, m := range run.Messages.All() {
		if r.message(&m, &r.rest, &r.begun, found) {
			run.Messages.Set(i, m)
		}
	}
	// A stop in this hook would discard the changes, so BeforeModel ends the run.
	if kind := r.scan.blocked(found); kind != "" {
		if err := refused.Set(ctx, kind); err != nil {
			return err
		}
	}
	return found.report(ctx, "input")
}

// BeforeModel redacts a request: values with tokens, which the state still has, and
// messages that other modules have added.
func (r *redact) BeforeModel(ctx *middleware.Context, call *middleware.ModelStart) error {
	if err := r.unlock(ctx); err != nil {
		return err
	}
	if kind, err := r.refusal(ctx); err != nil || kind != "" {
		return cmp.Or(err, stopped(ctx, kind))
	}
	found, err := r.request(ctx, call)
	if err := cmp.Or(err, found.report(ctx, "request"), r.vault.err); err != nil {
		return err
	}
	if kind := r.scan.blocked(found); kind != "" {
		return stopped(ctx, kind)
	}
	return nil
}

// request redacts the messages of a request. It repeats the work if another hook of the run meanwhile
// assigned the same placeholders.
func (r *redact) request(ctx *middleware.Context, call *middleware.ModelStart) (finds, error) {
	for {
		if r.book = (book{ctx: ctx}); r.Reversible {
			r.book.index()
		}
		found := finds{}
		var changed []int
		var now []abi.Message
		for i, m := range call.Messages.All() {
			scan := &r.said
			if m.Role != abi.RoleAssistant {
				scan = &r.given
			}
			r.book.fromUser = ofUser(&m)
			if r.message(&m, scan, &r.calls, found) {
				changed, now = append(changed, i), append(now, m)
			}
		}
		saved, err := r.book.save()
		if err != nil {
			return found, err
		}
		if saved {
			for n, i := range changed {
				call.Messages.Set(i, now[n])
			}
			return found, nil
		}
	}
}

// refusal returns the kind of data that made BeforeAgent reject the run, or "".
func (r *redact) refusal(ctx *middleware.Context) (kind string, err error) {
	if !r.blocks {
		return "", nil
	}
	kind, _, err = refused.Get(ctx)
	return kind, err
}

// stopped returns the error that ends the run because the conversation contains data of a
// blocked kind.
func stopped(ctx *middleware.Context, kind string) error {
	return ctx.Stop(
		middleware.Sprintf("The conversation holds data of the kind %s, which the model must not be sent.", kind),
		"redact_blocked",
	)
}

// AfterModelRewriteState redacts an answer that did not pass through OnChunk, because a module made
// it. It ends the run if OnChunk replaced blocked data in the answer.
func (r *redact) AfterModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	if err := r.unlock(ctx); err != nil {
		return err
	}
	found := finds{}
	m, ok := state.Messages.Last()
	changed := ok && r.message(&m, &r.answers, &r.made, found)
	if changed {
		state.Messages.Set(state.Messages.Len()-1, m)
	}
	if err := cmp.Or(found.report(ctx, "output"), r.vault.err); err != nil || changed {
		return err // stopping would discard the change
	}
	if kind := r.scan.marked(m.Content.String() + m.ReasoningContent); kind != "" && r.Output &&
		m.Role == abi.RoleAssistant {
		return ctx.Stop(
			middleware.Sprintf("The answer contained data of the kind %s, which is not allowed.", kind),
			"redact_blocked",
		)
	}
	return nil
}

// AfterAgent redacts the final answer, which another module may have changed.
func (r *redact) AfterAgent(ctx *middleware.Context, run *middleware.AgentEnd) error {
	if err := r.unlock(ctx); err != nil {
		return err
	}
	found := finds{}
	if run.Final != nil {
		r.message(run.Final, &r.answers, &r.made, found)
	}
	return cmp.Or(found.report(ctx, "output"), r.vault.err)
}

// AfterTool redacts a tool's result or error message, and withholds a result that contains blocked
// data.
func (r *redact) AfterTool(ctx *middleware.Context, end *middleware.ToolEnd) error {
	if !r.ToolResults {
		return nil
	}
	found := finds{}
	if end.Err != nil {
		end.Err.Message = r.rest.all(end.Err.Message, found)
	}
	if end.Result != nil {
		end.Result.Content, _ = r.content(end.Result.Content, &r.rest, found)
		if kind := r.scan.marked(end.Result.Content.String()); kind != "" {
			end.Result = abi.ErrorResult(
				middleware.Sprintf("The result of %s is withheld: it holds data of the kind %s.", end.Name, kind),
			)
		}
	}
	return found.report(ctx, "tool_result")
}

// BeforeTool redacts the decoded arguments, because escapes may have hidden data from OnChunk. It
// rejects a call with blocked data, and replaces tokens with their values.
func (r *redact) BeforeTool(ctx *middleware.Context, call *middleware.ToolStart) error {
	restores := r.RestoreArguments && len(r.labels) > 0
	if !r.ToolArguments && !restores || call.Arguments == "" {
		return nil
	}
	if err := r.unlock(ctx); err != nil {
		return err
	}
	arguments, err := values.Read([]byte(call.Arguments))
	if err != nil {
		return err
	}
	found := finds{}
	marks := ""
	if r.ToolArguments {
		arguments = each(arguments, func(s string) string {
			hidden := r.rest.all(s, found)
			marks = cmp.Or(marks, r.scan.marked(hidden))
			return hidden
		})
	}
	if marks != "" {
		call.Respond(
			abi.ErrorResult(
				middleware.Sprintf(
					"%s was not called: its arguments hold data of the kind %s, which it must not get.",
					call.Name,
					marks,
				),
			),
		)
		return found.report(ctx, "tool_arguments")
	}
	if restores {
		arguments = each(arguments, func(s string) string { return r.back.all(s, found) })
	}
	if len(found) == 0 && r.vault.restored == 0 {
		return nil
	}
	if err := call.SetArgs(arguments); err != nil {
		return err
	}
	return found.report(ctx, "tool_arguments")
}

// each applies change to all strings and numbers of a JSON value, but not to the keys of objects,
// and returns the changed value. A number that changes becomes a string.
func each(value any, change func(string) string) any {
	switch v := value.(type) {
	case string:
		return change(v)
	case values.Number:
		if now := change(string(v)); now != string(v) {
			return now
		}
	case map[string]any:
		for key, item := range v {
			v[key] = each(item, change)
		}
	case []any:
		for i, item := range v {
			v[i] = each(item, change)
		}
	}
	return value
}

// message redacts the content of a message with the scanner scan, if redaction is on for its role.
// It redacts the arguments of its tool calls with the scanner calls. It reports whether the message
// changed.
func (r *redact) message(m *abi.Message, scan, calls *scanner, found finds) (changed bool) {
	switch {
	case m.Role == abi.RoleUser && r.Input, m.Role == abi.RoleTool && r.ToolResults:
		m.Content, changed = r.content(m.Content, scan, found)
	case m.Role == abi.RoleAssistant && r.Output:
		m.Content, changed = r.content(m.Content, scan, found)
		if hidden := scan.all(m.ReasoningContent, found); hidden != m.ReasoningContent {
			m.ReasoningContent, changed = hidden, true
		}
	}
	for i := range m.ToolCalls {
		if len(calls.kinds) == 0 {
			break
		}
		call := &m.ToolCalls[i].Function
		if hidden := calls.json(call.Arguments, found); hidden != call.Arguments {
			call.Arguments, changed = hidden, true
		}
	}
	return changed
}

// content redacts c with scan, including matches that span adjacent text parts, and reports whether
// it changed.
func (r *redact) content(c abi.Content, scan *scanner, found finds) (abi.Content, bool) {
	if !c.IsParts() {
		hidden := scan.all(c.String(), found)
		if hidden == c.String() {
			return c, false
		}
		return abi.Text(hidden), true
	}
	parts, changed := c.Parts(), false
	for i := range parts {
		if hidden := scan.all(parts[i].Text, found); hidden != parts[i].Text {
			parts[i].Text, changed = hidden, true
		}
	}
	return abi.Parts(parts...), scan.across(parts, found) || changed
}
