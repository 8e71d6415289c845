package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// An Encoder converts a run's events to a client's protocol. An Encoder serves one run and one
// client, and is called for one event at a time.
type Encoder interface {
	// Protocol returns the name of the protocol, which modules receive.
	Protocol() string
	// Encode returns the protocol's events for e, or none. Modules may have dropped earlier events,
	// but not the last one of the run. A resumed run begins without its earlier events. Encode must
	// add the starting events that the protocol then requires.
	Encode(e abi.Event) []Encoded
}

// An Encoded is one event in a client's protocol.
type Encoded struct {
	JSON json.RawMessage // a JSON object
	// Fixed lists the keys of JSON that modules must not change, such as the event's type and IDs.
	Fixed []string
	// Keep prevents modules from dropping the event, for example because the protocol needs it for
	// later events.
	Keep bool
}

// Translate converts event e to a client's protocol with enc. Before and after the conversion, it
// calls the run's translate_before and translate_after hooks: first those of the inner ring, then
// the tenant's, then the outer ring's. A hook that fails leaves the event unchanged.
//
// caused has the events that the hooks themselves produced: log lines, faults and custom events.
// Translate does not send them to the run's host, which may be busy sending e. When the caller
// translates them, they pass only the rings outside the hook's own, so that translation terminates.
//
// Translate must be called for one event at a time.
func (r *Run) Translate(ctx context.Context, e abi.Event, enc Encoder) (client []json.RawMessage, caused []abi.Event) {
	t := &translation{
		run:      r,
		protocol: enc.Protocol(),
		source:   e,
		ends:     e.Type == abi.EventRunFinished || e.Type == abi.EventRunPaused,
	}
	e, ok := t.before(ctx, e)
	if !ok {
		return nil, t.caused
	}
	for _, x := range enc.Encode(e) {
		if b, ok := t.after(ctx, x); ok {
			client = append(client, b)
		}
	}
	return client, t.caused
}

// A translation converts one event for a client.
type translation struct {
	run      *Run
	protocol string
	source   abi.Event // the event as it was sent
	ends     bool      // the event is the last of the run
	caused   []abi.Event
}

// members returns the members that may translate the event. They must be allowed to read the whole
// event, and be outside the ring of the translator that caused the event, if one did.
func (t *translation) members(h abi.Hook) []*hook.Member {
	var by *hook.Member
	if hook.Translates(t.source.Hook) {
		by = t.run.find(t.source.Entry)
	}
	var out []*hook.Member // do not append to the run's list
	for _, m := range t.run.Outward(h) {
		if (by == nil || m.Ring < by.Ring) && mayTranslate(m, &t.source) {
			out = append(out, m)
		}
	}
	return out
}

// mayTranslate reports whether the member may read everything in an event. A part of the event
// cannot be withheld from a translator, because the translator returns the whole event.
func mayTranslate(m *hook.Member, e *abi.Event) bool {
	if m.Read == "" || m.Read == hook.ReadAll {
		return true
	}
	if e.Event != nil && !mayTranslate(m, e.Event) {
		return false
	}
	last := e.Type == abi.EventRunFinished && m.Read == hook.ReadLast
	return e.Chunk == nil && e.Call == nil && e.Decision == nil && e.Result == nil && len(e.Interrupts) == 0 &&
		(e.Message == nil || last)
}

// call calls hook h of one member with an event.
func (t *translation) call(
	ctx context.Context,
	m *hook.Member,
	h abi.Hook,
	event json.RawMessage,
	apply func(*abi.TranslateAnswer) error,
) {
	c := t.run.Call(m, h)
	c.Divert(func(e abi.Event) {
		if e.Stage != string(ending.StageBreaker) { // each further event would repeat the report of an open circuit breaker
			t.caused = append(t.caused, e)
		}
	})
	var out abi.TranslateAnswer
	v, err := c.Invoke(ctx, &abi.TranslateInput{Event: event, Protocol: t.protocol}, &out, func() error {
		if out.Drop && out.Event != nil {
			return fmt.Errorf("returned an event and drop; want one of them")
		}
		return apply(&out)
	})
	if err == nil && v.Failed != nil {
		c.LogFailed(v.Failed)
	}
}

// before passes an event through the translate_before hooks. It returns false if a hook drops the
// event.
//
// The message at the end of a run repeats an earlier message event, and an encoder may send it
// again. If a member leaves that message unchanged, before also calls the member with the message
// as a message event.
func (t *translation) before(ctx context.Context, e abi.Event) (abi.Event, bool) {
	for _, m := range t.members(contract.HookTranslateBefore) {
		changed, ok, err := t.translate(ctx, m, e)
		if err != nil {
			continue // the event stays unchanged
		}
		if !ok {
			return e, false
		}
		last, ok := lastMessage(e)
		if now, still := lastMessage(changed); ok && still && message.Same(last.Message, now.Message) {
			m := t.translateMessage(ctx, m, changed, now)
			changed = withLast(changed, m)
		}
		e = changed
	}
	return e, true
}

// translate passes an event through a member's translate_before. ok is false if the member drops
// the event. If the member fails, translate returns the event unchanged, with an error.
func (t *translation) translate(
	ctx context.Context,
	m *hook.Member,
	e abi.Event,
) (out abi.Event, ok bool, failed error) {
	event, err := abijson.Marshal(e)
	if err != nil {
		return e, true, err // the event cannot be shown to a module
	}
	out, ok, failed = e, true, errNotTranslated
	t.call(ctx, m, contract.HookTranslateBefore, event, func(answer *abi.TranslateAnswer) error {
		switch {
		case answer.Drop && t.ends && isEnd(e):
			return fmt.Errorf("drops %s; the end of a run cannot be dropped", e.Type)
		case answer.Drop:
			ok, failed = false, nil
			return nil
		case answer.Event == nil:
			failed = nil
			return nil
		}
		var changed abi.Event
		if _, err := abijson.Decode(answer.Event, &changed); err != nil {
			return fmt.Errorf("event: %w", err)
		}
		if err := keepIdentity(&changed, &e); err != nil {
			return err
		}
		out, failed = changed, nil
		return nil
	})
	return out, ok, failed
}

var errNotTranslated = errors.New("the hook failed")

func isEnd(e abi.Event) bool { return e.Type == abi.EventRunFinished || e.Type == abi.EventRunPaused }

// translateMessage passes the message at the end of a run through a member's translate_before, as a
// message event. It returns nil if the member drops the message. If the member fails or must not
// read the message, translateMessage returns the message unchanged.
func (t *translation) translateMessage(ctx context.Context, m *hook.Member, e, last abi.Event) *abi.Message {
	asked := inside(e, func(abi.Event) abi.Event {
		return abi.Event{
			Type:    abi.EventMessage,
			Seq:     last.Seq,
			Run:     last.Run,
			Agent:   last.Agent,
			TimeMS:  last.TimeMS,
			Step:    last.Step,
			StepID:  last.StepID,
			Message: last.Message,
		}
	})
	if !mayTranslate(m, &asked) {
		return last.Message
	}
	out, ok, err := t.translate(ctx, m, asked)
	switch {
	case err != nil:
		return last.Message
	case !ok:
		return nil
	}
	for out.Event != nil {
		out = *out.Event
	}
	return out.Message
}

// lastMessage returns the innermost event of e, which is e itself unless e is the event of a nested
// run. It also reports whether that event ends its run and has a message.
func lastMessage(e abi.Event) (abi.Event, bool) {
	for e.Type == abi.EventChild && e.Event != nil {
		e = *e.Event
	}
	return e, e.Type == abi.EventRunFinished && e.Message != nil
}

// withLast returns e with m as the message of its innermost event.
func withLast(e abi.Event, m *abi.Message) abi.Event {
	return inside(e, func(last abi.Event) abi.Event { last.Message = m; return last })
}

// inside returns e with change applied to its innermost event.
func inside(e abi.Event, change func(abi.Event) abi.Event) abi.Event {
	if e.Type != abi.EventChild || e.Event == nil {
		return change(e)
	}
	inner := inside(*e.Event, change)
	e.Event = &inner
	return e
}

// keepIdentity restores the fields of e that a translator must not change: the type and origin of
// the event, and the IDs with which clients relate events. was is the event before the translation.
// keepIdentity returns an error if the translator removed a part of the event or added a message.
func keepIdentity(e, was *abi.Event) error {
	e.Type, e.Seq, e.Run, e.TimeMS, e.Step, e.StepID = was.Type, was.Seq, was.Run, was.TimeMS, was.Step, was.StepID
	e.Entry, e.Hook, e.Digest, e.Source = was.Entry, was.Hook, was.Digest, was.Source
	e.FinishReason, e.StoppedBy, e.Resume = was.FinishReason, was.StoppedBy, was.Resume
	e.Agent, e.From, e.Parent = was.Agent, was.From, was.Parent
	if was.Event != nil {
		if e.Event == nil {
			return fmt.Errorf("event: has no event of the run inside; drop it, or empty what is in it")
		}
		if err := keepIdentity(e.Event, was.Event); err != nil {
			return err
		}
	}
	if was.Chunk != nil {
		if e.Chunk == nil {
			return fmt.Errorf("event: has no chunk; drop it, or empty its text")
		}
		c, had := *e.Chunk, was.Chunk
		c.Seq, c.Kind, c.Index, c.ID, c.CallID = had.Seq, had.Kind, had.Index, had.ID, had.CallID
		if err := contract.CheckChunk(&c); err != nil {
			return fmt.Errorf("event: chunk: %w", err)
		}
		e.Chunk = &c
	}
	if was.Type == abi.EventMessage && e.Message == nil {
		return fmt.Errorf("event: has no message; drop it, or empty its content")
	}
	if e.Message != nil {
		if err := keepMessage(e.Message, was.Message); err != nil {
			return err
		}
	}
	if was.Call != nil {
		if e.Call == nil {
			return fmt.Errorf("event: has no call; drop it, or empty its arguments")
		}
		e.Call.ID, e.Call.Owner, e.Call.Idempotent, e.Call.By = was.Call.ID, was.Call.Owner, was.Call.Idempotent, was.Call.By
	}
	if was.Result != nil && e.Result == nil {
		return fmt.Errorf("event: has no result; drop it, or empty its content")
	}
	return keepInterrupts(e, was)
}

// keepMessage restores the ID, role, origin and call ID of a message. It returns an error if the
// translator added the message or a tool call, or made the message invalid.
func keepMessage(m, was *abi.Message) error {
	if was == nil {
		return fmt.Errorf("event: has a message, where there was none")
	}
	m.ID, m.Role, m.Origin, m.ToolCallID = was.ID, was.Role, was.Origin, was.ToolCallID
	m.Labels, m.PartLabels = was.Labels, was.PartLabels
	for _, c := range m.ToolCalls {
		if !slices.ContainsFunc(was.ToolCalls, func(w abi.ToolCall) bool { return w.ID == c.ID }) {
			return fmt.Errorf("event: message: has a tool call %q, which there is not", c.ID)
		}
	}
	if err := contract.CheckMessage(m); err != nil {
		return fmt.Errorf("event: message: %w", err)
	}
	return nil
}

// keepInterrupts restores the IDs and the origin of interrupts, their calls and the questions of
// gates, so that a person who approves a call sees the call that runs. It returns an error if the
// translator changed the number of interrupts. Clients answer interrupts by ID, and must answer all
// of them.
func keepInterrupts(e, was *abi.Event) error {
	if len(e.Interrupts) != len(was.Interrupts) {
		return fmt.Errorf("event: has %d interrupts; there are %d", len(e.Interrupts), len(was.Interrupts))
	}
	for i := range e.Interrupts {
		p, w := &e.Interrupts[i], &was.Interrupts[i]
		p.ID, p.Run, p.Agent, p.Entry, p.Hook = w.ID, w.Run, w.Agent, w.Entry, w.Hook
		p.Call, p.Asks = w.Call, w.Asks
		if w.Call != nil { // a question about a call is the gate's
			p.Reason, p.Payload = w.Reason, w.Payload
		}
	}
	return nil
}

// after passes an event in the client's protocol through the translate_after hooks. It returns
// false if a hook drops the event.
func (t *translation) after(ctx context.Context, x Encoded) (json.RawMessage, bool) {
	event := x.JSON
	for _, m := range t.members(contract.HookTranslateAfter) {
		dropped := false
		t.call(ctx, m, contract.HookTranslateAfter, event, func(out *abi.TranslateAnswer) error {
			switch {
			case out.Drop && (t.ends || x.Keep):
				return fmt.Errorf(
					"drops an event that the client cannot do without: the end of a run, or what the protocol needs for what follows",
				)
			case out.Drop:
				dropped = true
				return nil
			case out.Event == nil:
				return nil
			}
			changed, err := keepFixed(out.Event, event, x.Fixed)
			if err == nil {
				event = changed
			}
			return err
		})
		if dropped {
			return nil, false
		}
	}
	return event, true
}

// keepFixed restores the fixed keys of an encoded event. It returns an error if the event is not a
// JSON object.
func keepFixed(event, was json.RawMessage, fixed []string) (json.RawMessage, error) {
	if err := jsoncodec.Valid(event); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	var fields, before map[string]json.RawMessage
	if err := json.Unmarshal(event, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("event: want an object")
	}
	if err := json.Unmarshal(was, &before); err != nil {
		return nil, fmt.Errorf("the encoder's event: %w", err)
	}
	same := true
	for _, key := range fixed {
		same = same && bytes.Equal(fields[key], before[key])
	}
	if same {
		return slices.Clone(event), nil // keep the module's order of keys
	}
	fields = maps.Clone(fields)
	for _, key := range fixed {
		delete(fields, key)
		if v, ok := before[key]; ok {
			fields[key] = v
		}
	}
	return abijson.Marshal(fields)
}
