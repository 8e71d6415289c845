package golden

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// A Difference is a part of a case that a host's report does not match.
type Difference struct {
	// Part is the name of the part in the case's file, such as "events custom" or "request 2". It
	// is "tools" if a tool received other arguments than the case states. It is "start" if the host
	// could not build an agent that must run; Got is then the reason.
	Part string
	Want string
	Got  string
}

// notStarted is the Part of a difference if the host could not build an agent that must run.
const notStarted = "start"

// String returns the differing lines as a unified diff. The prefix - marks expected lines, and +
// the host's lines.
func (d Difference) String() string {
	unified := diff.Diff("", []byte(d.Want+"\n"), "", []byte(d.Got+"\n"))
	_, hunks, _ := bytes.Cut(unified, []byte("\n@@"))
	return fmt.Sprintf("%s: - expected, + actual\n@@%s", d.Part, hunks)
}

// Compare returns the differences between the case's expectations and a host's report, in the order
// of the case's file. If texts is false, it ignores error messages whose wording is up to the host.
// It returns an error if the report is malformed, for example if an event lacks a field that its
// type requires.
func (c *Case) Compare(o *wire.Outcome, texts bool) ([]Difference, error) {
	for i := range o.Events {
		if err := checkEvent(&o.Events[i]); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	if o.Refused != "" && !slices.ContainsFunc(c.expect, func(e expectation) bool { return e.kind == "error" }) {
		return []Difference{{Part: notStarted, Got: o.Refused}}, nil
	}
	var out []Difference
	for _, e := range c.expect {
		got, err := e.got(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.part(), err)
		}
		want, got := strings.TrimSpace(e.text), strings.TrimSpace(got)
		if e.same(want, got, texts) {
			continue
		}
		if !texts {
			want, got = withoutTexts(want), withoutTexts(got)
		}
		out = append(out, Difference{e.part(), want, got})
	}
	if d, ok := c.compareTools(o); ok {
		out = append(out, d)
	}
	return out, nil
}

// same reports whether got equals want or, for the kind "error", contains it. If texts is false,
// same ignores error messages whose wording is up to the host.
func (e *expectation) same(want, got string, texts bool) bool {
	switch {
	case e.kind == "error" && texts:
		return strings.Contains(got, want)
	case e.kind == "error":
		return got != notRefused
	case e.kind == "events" && !texts:
		return withoutTexts(want) == withoutTexts(got)
	}
	return want == got
}

// ownTexts matches the messages of a host's own errors in lines of FormatEvent.
var ownTexts = regexp.MustCompile(`(?m)^((?:child .*\] )?(?:fault \S+ \S+|model_attempt \d+ \S+|` +
	`run_finished (?:error [a-z_]+|\S+ limit))): .*?(, then \S+)?$`)

// withoutTexts removes the error messages whose wording is up to the host: causes of faults, and
// errors of failed model calls and runs. It keeps text that a model, a tool, a module or the caller
// of a run reads.
func withoutTexts(lines string) string { return ownTexts.ReplaceAllString(lines, "$1$2") }

const notRefused = "the start was not refused"

// got formats the part of the report that e is compared with.
func (e *expectation) got(o *wire.Outcome) (string, error) {
	switch e.kind {
	case "error":
		if o.Refused == "" {
			return notRefused, nil
		}
		return o.Refused, nil
	case "events":
		return formatEvents(o.Events, e.arg), nil
	case "client":
		return formatClient(o.Client, e.arg)
	case "state":
		return formatMessages(o.State), nil
	case "asked":
		return formatAsked(o.ModelCalls), nil
	}
	n, err := strconv.Atoi(e.arg)
	if err != nil || n < 1 {
		return "", errors.New("want a number from 1")
	}
	if n > len(o.ModelCalls) {
		return fmt.Sprintf("the model was asked %d times", len(o.ModelCalls)), nil
	}
	if e.kind == "told" {
		return strings.Join(o.ModelCalls[n-1].Tools, ", "), nil
	}
	return formatMessages(o.ModelCalls[n-1].Messages), nil
}

func formatAsked(calls []wire.ModelCall) string {
	var b strings.Builder
	for _, r := range calls {
		b.WriteString(r.Model)
		if len(r.Params) > 0 {
			params, _ := abijson.Marshal(r.Params)
			b.WriteString(" " + string(params))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func formatEvents(events []abi.Event, types string) string {
	if types == "" {
		types = "message,tool_call,tool_result,custom,fault,run_paused,run_finished"
	}
	var b strings.Builder
	for _, e := range events {
		if slices.Contains(strings.Split(types, ","), string(e.Type)) {
			b.WriteString(FormatEvent(e) + "\n")
		}
	}
	return b.String()
}

func formatMessages(messages []abi.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(formatMessage(m) + "\n")
	}
	return b.String()
}

// formatClient formats the events of an AG-UI client, one per line, without the fields that differ
// from run to run.
func formatClient(events []json.RawMessage, types string) (string, error) {
	var b strings.Builder
	for _, raw := range events {
		var e map[string]any
		if err := json.Unmarshal(raw, &e); err != nil {
			return "", err
		}
		kind, _ := e["type"].(string)
		if types != "" && !slices.Contains(strings.Split(types, ","), kind) {
			continue
		}
		for _, key := range []string{
			"type", "timestamp", "threadId", "runId", "protocolVersion", "messageId", "parentMessageId", "usage",
		} {
			delete(e, key)
		}
		rest, err := abijson.Marshal(e)
		if err != nil {
			return "", err
		}
		b.WriteString(strings.TrimSuffix(kind+" "+string(rest), " {}") + "\n")
	}
	return b.String(), nil
}

// checkEvent returns an error unless an event has a known type and the fields that the type
// requires. It also checks the event inside a child event.
func checkEvent(e *abi.Event) error {
	missing := ""
	switch e.Type {
	case abi.EventChunk:
		missing = absent("chunk", e.Chunk == nil)
	case abi.EventMessage:
		missing = absent("message", e.Message == nil)
	case abi.EventToolCall:
		missing = absent("call", e.Call == nil)
	case abi.EventToolResult:
		missing = absent("call", e.Call == nil) + absent("result", e.Result == nil)
	case abi.EventDecision:
		missing = absent("decision", e.Decision == nil)
	case abi.EventModelAttempt:
		missing = absent("error", e.Error == nil)
	case abi.EventChild:
		missing = absent("call", e.Call == nil) + absent("event", e.Event == nil)
	}
	switch {
	case !slices.Contains(contract.EventTypes(), e.Type):
		return fmt.Errorf("%q is no type of an event", e.Type)
	case missing != "":
		return fmt.Errorf("%s has no%s", e.Type, missing)
	case e.Event != nil:
		return checkEvent(e.Event)
	}
	return nil
}

func absent(field string, isAbsent bool) string {
	if isAbsent {
		return " " + field
	}
	return ""
}
