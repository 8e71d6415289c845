package runs

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/server/agents"
)

// A Redactor removes the operator's middlewares, their logs, failures and values, from data for
// tenants.
type Redactor struct {
	entries map[string]bool
	names   [][]byte // the prefixed names of entries, longer ones before their prefixes
}

// NewRedactor returns a redactor that hides the modules of a run outside of the tenant's ring.
func NewRedactor(pins []journal.Pin) *Redactor {
	h := &Redactor{entries: map[string]bool{}}
	for _, p := range pins {
		if p.Ring != "tenant" {
			h.entries[p.Entry] = true
		}
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(h.entries))) {
		if strings.HasPrefix(name, agents.OperatorName+".") {
			h.names = append(h.names, []byte(name))
		}
	}
	return h
}

// Has reports whether an entry of an agent is one whose data the redactor hides.
func (h *Redactor) Has(agentName, entry string) bool {
	return entry != "" && (h.entries[entry] || h.entries[agentName+"/"+entry])
}

// encode returns the redacted JSON of an event. Hidden events have no data.
func (h *Redactor) encode(e *abi.Event) Event {
	l := Event{Seq: e.Seq, Type: e.Type}
	shown := h.event(e)
	if shown == nil {
		return l
	}
	b, err := abijson.Marshal(shown)
	if err != nil {
		return l
	}
	l.data = h.redactNames(b)
	return l
}

// event returns a redacted event, or nil if the event is hidden.
func (h *Redactor) event(e *abi.Event) *abi.Event {
	if len(h.entries) == 0 {
		return e
	}
	if e.Message != nil && h.isFrom(e.Message) {
		out := *e
		out.Message = h.message(e.Message)
		e = &out
	}
	if h.Has(e.Agent, e.Entry) {
		if e.Type == abi.EventDecision && e.Decision.Answered { // run_paused has shown the question
			out := *e
			out.Entry, out.Digest = agents.OperatorName, ""
			return &out
		}
		return nil // a log line, failure or limit of the operator's middleware
	}
	switch e.Type {
	case abi.EventChild:
		inner := h.event(e.Event)
		if inner == nil {
			return nil
		}
		out := *e
		out.Event = inner
		return &out
	case abi.EventRunFinished:
		return h.runFinished(e)
	case abi.EventRunPaused:
		out := *e
		out.Interrupts = h.pending(e.Interrupts)
		return &out
	case abi.EventToolCall, abi.EventToolResult:
		return h.tool(e)
	}
	return e
}

// tool returns a tool call or result in which OperatorName replaces the names of the operator's
// middlewares that called or answered the tool.
func (h *Redactor) tool(e *abi.Event) *abi.Event {
	out := *e
	if h.Has("", e.Source) {
		out.Source = agents.OperatorName
	}
	if c := e.Call; c != nil && c.By != nil && h.Has(e.Agent, c.By.Entry) {
		call, by := *c, *c.By
		by.Entry, by.Hook = agents.OperatorName, ""
		call.By, out.Call = &by, &call
	}
	return &out
}

// Event returns a redacted event, or nil if the event is hidden.
func (h *Redactor) Event(e *abi.Event) *abi.Event { return h.event(e) }

// Text returns text in which the names of the operator's middlewares are replaced.
func (h *Redactor) Text(text string) string { return string(h.redactNames([]byte(text))) }

// HidesAny reports whether the run has middlewares of the operator.
func (h *Redactor) HidesAny() bool { return len(h.entries) > 0 }

// encoder returns an encoder that redacts events and encodes them with enc. It returns nil if enc
// is nil.
func (h *Redactor) encoder(enc chain.Encoder) chain.Encoder {
	if enc == nil || len(h.entries) == 0 {
		return enc
	}
	return &redactingEncoder{enc, h}
}

type redactingEncoder struct {
	chain.Encoder
	hide *Redactor
}

// Encode implements [chain.Encoder].
func (c *redactingEncoder) Encode(e abi.Event) []chain.Encoded {
	shown := c.hide.event(&e)
	if shown == nil {
		return nil
	}
	out := c.Encoder.Encode(*shown)
	for i := range out {
		out[i].JSON = c.hide.redactNames(out[i].JSON)
	}
	return out
}

// isFrom reports whether an operator's middleware made a message.
func (h *Redactor) isFrom(m *abi.Message) bool {
	entry, byModule := strings.CutPrefix(m.Origin, abi.OriginModule)
	return byModule && h.Has("", entry)
}

// message returns m, or a copy in which OperatorName replaces the names of the operator's middlewares
// that made or changed m.
func (h *Redactor) message(m *abi.Message) *abi.Message {
	made := h.isFrom(m)
	if !made && m.Labels == nil {
		return m
	}
	out := *m
	if made {
		out.Origin = abi.OriginModule + agents.OperatorName
	}
	out.Labels, out.PartLabels = h.labels(m.Labels), slices.Clone(m.PartLabels)
	for i := range out.PartLabels {
		out.PartLabels[i].Labels = h.labels(out.PartLabels[i].Labels)
	}
	return &out
}

// labels returns labels in which OperatorName replaces the names of the operator's middlewares.
func (h *Redactor) labels(list []string) []string {
	out := slices.Clone(list)
	for i, label := range out {
		if entry, ok := strings.CutPrefix(label, abi.OriginModule); ok && h.Has("", entry) {
			out[i] = abi.OriginModule + agents.OperatorName
		}
	}
	return message.JoinLabels(out)
}

func (h *Redactor) messages(list []abi.Message) []abi.Message {
	out := make([]abi.Message, len(list))
	for i := range list {
		out[i] = *h.message(&list[i])
	}
	return out
}

func (h *Redactor) runFinished(e *abi.Event) *abi.Event {
	out := *e
	out.Entries = nil
	for _, s := range e.Entries {
		if !h.Has(s.Agent, s.Entry) {
			out.Entries = append(out.Entries, s)
		}
	}
	if h.Has("", e.StoppedBy) {
		out.StoppedBy, out.Hook = agents.OperatorName, ""
	}
	if h.Has("", e.Source) {
		out.Source = agents.OperatorName
	}
	if e.Error != nil {
		for name := range h.entries {
			if strings.Contains(e.Error.Message, name) { // the middleware's own error message
				out.Error = &abi.Error{Code: e.Error.Code, Message: "a module of the operator failed"}
			}
		}
	}
	return &out
}

// redactNames replaces the names of the operator's middlewares in text or JSON, such as the result
// of a denied tool call, in which the host names the middleware. It replaces only names that begin
// with "operator.", because others could be ordinary words.
func (h *Redactor) redactNames(b []byte) []byte {
	for _, name := range h.names {
		b = bytes.ReplaceAll(b, name, []byte(agents.OperatorName))
	}
	return b
}

// pending returns interrupts in which OperatorName replaces the names of the operator's middlewares.
func (h *Redactor) pending(list []abi.Pending) []abi.Pending {
	out := append([]abi.Pending{}, list...)
	for i := range out {
		if h.Has(out[i].Agent, out[i].Entry) {
			out[i].Entry = agents.OperatorName
		}
		asks := append([]abi.Ask{}, out[i].Asks...)
		for j := range asks {
			if h.Has(out[i].Agent, asks[j].Entry) {
				asks[j].Entry = agents.OperatorName
			}
		}
		if len(asks) > 0 {
			out[i].Asks = asks
		}
	}
	return out
}

// spans removes the hooks of the operator's middlewares from a timeline. Spans inside a removed one
// move to its parent.
func (h *Redactor) spans(line *api.Timeline) {
	parents := map[int]int{}
	shown := []api.Span{}
	for _, s := range line.Spans {
		if up, moved := parents[s.Parent]; moved {
			s.Parent = up
		}
		if s.Kind == string(tracing.OperationHook) &&
			(h.Has(s.Agent, s.Entry) || strings.HasPrefix(s.Entry, agents.OperatorName+".")) {
			parents[s.ID] = s.Parent
			continue
		}
		shown = append(shown, s)
	}
	line.Spans = shown
}
