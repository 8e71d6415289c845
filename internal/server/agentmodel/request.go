package agentmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A Request is a parsed request to an agent through a model API.
type Request struct {
	Model    string // the name of the agent
	Messages []abi.Message
	Tools    []abi.Tool // tools that run in the client
	Metadata abi.Params
	// Params are the parameters for the model, by their names in chat completions. Choice is the
	// tool_choice of the next model call. If it is nil, the model may choose.
	Params abi.Params
	Choice abi.JSON
	// Run is the ID of the run to resume, and Answers has the answers to its interrupts by their
	// IDs. If Run is empty, a new run starts with Messages.
	Run     string
	Answers map[string]json.RawMessage
	// Previous is the ID of the run whose conversation a new run continues. The request names the run
	// by its response, in previous_response_id. Thread is the thread that a new run continues. Both
	// may be empty; [ParseRequest] sets at most one of them.
	Previous, Thread string
	// After is the number of the run's last event before this request. It distinguishes the IDs of
	// the responses of one run. The caller sets After and Thread before it calls [Serve].
	After int64

	protocol *Protocol
	stream   bool
	usage    bool       // the response reports the usage
	format   *format    // required form of the answer; nil allows any text
	echo     abi.Fields // fields of the request that the response repeats
}

// Limits on a request.
const (
	maxMessages = 10_000
	maxTools    = 128
)

// ParseRequest parses the body of a request. It rejects fields that ask for something that agents
// do not do. The error is an [*Error].
func ParseRequest(p *Protocol, body []byte) (*Request, error) {
	r := &Request{protocol: p}
	body, err := r.readStored(body)
	if err != nil {
		return nil, err
	}
	parsed, err := p.ParseRequest(body)
	if err != nil {
		return nil, invalidRequest(err)
	}
	root, err := rawjson.Parse(body)
	if err != nil {
		return nil, badf("", "the request is not valid: %v", err)
	}
	for _, name := range p.misplaced {
		if !root.Get(name).IsNull() {
			return nil, badf(name, "the API has no field %s", name)
		}
	}
	call := parsed.Call()
	r.Model, r.Messages, r.stream = call.Model, call.Messages, call.Stream
	failed := failedResults(root)
	if err := r.continues(failed); err != nil {
		return nil, err
	}
	if r.Run == "" { // the store has the messages of a run that is resumed
		if err := r.readMessages(failed); err != nil {
			return nil, err
		}
	}
	if err := r.readParams(call.Params); err != nil {
		return nil, err
	}
	return r, r.addTools(root.Get("tools"), call.Tools)
}

// invalidRequest converts an error of a protocol's codec to an [*Error].
func invalidRequest(err error) error {
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return badf(known.Param, "%s", known.Message)
	}
	return badf("", "%v", err)
}

// readMessages checks the messages of a new run. It removes fields that belong to the client's API
// or that the host sets. failed has the IDs of the calls whose results are errors; the text of
// these results begins with errorPrefix afterwards.
func (r *Request) readMessages(failed map[string]bool) error {
	switch n := len(r.Messages); {
	case n == 0:
		return badf("messages", "the request has no messages; want a conversation")
	case n > maxMessages:
		return badf("messages", "there are %d messages; at most %d are taken", n, maxMessages)
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		m.ID, m.Origin, m.Extra, m.Labels, m.PartLabels = "", "", nil, nil, nil // the host sets these
		if err := readMessage(m); err != nil {
			return badf(fmt.Sprintf("messages[%d]", i), "message %d of the request: %v", i+1, err)
		}
		if m.Role == abi.RoleTool && failed[m.ToolCallID] && !strings.HasPrefix(m.Content.String(), errorPrefix) {
			m.Content = withError(m.Content)
		}
	}
	return nil
}

// errorPrefix begins the text of a tool result that is an error. Some model APIs have no field that
// marks such results.
const errorPrefix = "Error: "

func withError(c abi.Content) abi.Content {
	if !c.IsParts() {
		return abi.Text(errorPrefix + c.String())
	}
	return abi.Parts(append([]abi.Part{{Type: abi.PartText, Text: errorPrefix}}, c.Parts()...)...)
}

// harmless lists fields of messages and parts that have no effect on an agent: cache hints, and
// fields that clients copy from earlier responses.
var harmless = []string{"annotations", "audio", "cache_control", "citations", "function_call", "logprobs", "status"}

// readMessage checks a message and removes fields that have no effect. If the message has a refusal
// and no text, the refusal becomes its text.
func readMessage(m *abi.Message) error {
	if text := wire.Refusal(m); text != "" && m.Content.String() == "" {
		m.Content = abi.Text(text)
	}
	for _, f := range m.Unknown {
		if f.Name != wire.KindRefusal && !isHarmless(f) {
			return fmt.Errorf("agents do not accept its field %.60q; remove it", f.Name)
		}
	}
	m.Unknown = nil
	if m.Content.IsParts() {
		parts := slices.Clone(m.Content.Parts())
		for i := range parts {
			p := &parts[i]
			if wire.Opaque(p) {
				return fmt.Errorf("agents do not accept items and parts of type %.60q, which belong to another model or "+
					"refer to what it stores; remove them (clients of the Responses API: send store: false)", p.Type)
			}
			p.Unknown = slices.DeleteFunc(slices.Clone(p.Unknown), isHarmless)
		}
		m.Content = abi.Parts(parts...)
	}
	for i := range m.ToolCalls {
		if t := m.ToolCalls[i].Type; t != "" && t != "function" {
			return fmt.Errorf("agents do not accept calls of type %.60q", t)
		}
	}
	return contract.CheckMessage(m)
}

// isHarmless reports whether a field has no effect on an agent: its name is in harmless, or its
// value is null or empty.
func isHarmless(f abi.Field) bool {
	return slices.Contains(harmless, f.Name) || slices.Contains([]string{"null", "[]", "{}", `""`}, string(f.Value))
}

// addTools checks the client's tools, and adds them to the request unless tool_choice is "none".
// list has the tools as the client sent them, and tools has them as the codec parsed them.
func (r *Request) addTools(list rawjson.Value, tools []abi.Tool) error {
	elements := list.Elements()
	if len(elements) > maxTools {
		return badf("tools", "there are %d tools; at most %d are taken", len(elements), maxTools)
	}
	for i, v := range elements {
		if kind := v.Get("type").String(); !slices.Contains(r.protocol.tools, kind) {
			return badf(fmt.Sprintf("tools[%d]", i), "tools[%d] is of type %.60q; agents accept only functions", i, kind)
		}
	}
	for i := range tools {
		if err := contract.CheckTool(&tools[i]); err != nil {
			return badf(fmt.Sprintf("tools[%d]", i), "tools[%d]: %v", i, err)
		}
	}
	if len(tools) != len(elements) {
		return badf("tools", "two tools have the same name, or a tool is no function")
	}
	if string(r.Choice) == `"none"` {
		r.Choice = nil
		return nil
	}
	r.Tools = tools
	return r.checkChoice()
}

// checkChoice rejects a tool_choice that is invalid or names a tool that the request does not have.
func (r *Request) checkChoice() error {
	v := rawjson.Value{Text: r.Choice}
	switch name := v.Get("function").Get("name").String(); {
	case len(r.Choice) == 0:
		return nil
	case v.String() == "required":
		if len(r.Tools) == 0 {
			return badf("tool_choice", "tool_choice is required, and the request has no tools")
		}
		return nil
	case !v.IsObject() || v.Get("type").String() != "function":
		return badf("tool_choice", "tool_choice is %.80s; want auto, none, required or one function", r.Choice)
	case !slices.ContainsFunc(r.Tools, func(t abi.Tool) bool { return t.Name == name }):
		return badf("tool_choice", "tool_choice names %.80q, which is no tool of the request", name)
	}
	return nil
}

// failedResults returns the IDs of the calls whose results are marked as errors. Only the Messages
// API has such a mark.
func failedResults(root rawjson.Value) map[string]bool {
	out := map[string]bool{}
	for _, m := range root.Get("messages").Elements() {
		for _, block := range m.Get("content").Elements() {
			if block.Get("is_error").IsTrue() {
				out[block.Get("tool_use_id").String()] = true
			}
		}
	}
	return out
}

// continues sets Run and Answers if the conversation ends with results of the client's tools. The
// results resume the run that called the tools. failed has the IDs of the calls whose results are
// errors. continues fails if the results belong to several runs.
func (r *Request) continues(failed map[string]bool) error {
	for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Role == abi.RoleTool; i-- {
		m := &r.Messages[i]
		run, interrupt, ok := splitCallID(m.ToolCallID)
		switch {
		case !ok:
			continue // not the id of a call that a run made
		case r.Run != "" && r.Run != run:
			return badf("messages", "the results at the end of the conversation belong to several runs, %s and %s", r.Run, run)
		}
		if r.Answers[interrupt] != nil {
			continue // a later message has a result for the same call
		}
		if err := readMessage(m); err != nil {
			return badf("messages", "message %d of the request: %v", i+1, err)
		}
		answer, err := abijson.Marshal(abi.Result{Content: m.Content, IsError: failed[m.ToolCallID]})
		if err != nil {
			return badf("messages", "messages[%d]: %v", i, err)
		}
		r.Run = run
		if r.Answers == nil {
			r.Answers = map[string]json.RawMessage{}
		}
		r.Answers[interrupt] = answer
	}
	return nil
}

// callPrefix starts the ids of the client's tool calls. An id contains the run and the interrupt
// that the call's result answers.
const callPrefix = "call_"

func callID(run, interrupt string) string { return callPrefix + run + "." + interrupt }

func splitCallID(id string) (run, interrupt string, ok bool) {
	rest, ok := strings.CutPrefix(id, callPrefix)
	if !ok {
		return "", "", false
	}
	run, interrupt, ok = strings.Cut(rest, ".")
	return run, interrupt, ok && strings.HasPrefix(run, "run_") && interrupt != ""
}
