package agui

import (
	"encoding/json"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// Options configure an encoder; see [NewEncoder].
type Options struct {
	// Thread and Run are the client's ids. The default of both is the id of the run.
	Thread, Run string
	// Messages holds the client's messages before the run, from [Input.Raw]. With them, the
	// encoder sends a snapshot of all messages if the final message differs from the streamed
	// one. Without them, or if the run's messages exceed 4 MiB, it sends a custom event
	// "message_replaced" with the final message.
	Messages []json.RawMessage
	// Internals also sends events for the agent's developers: faults and log lines of modules,
	// retried model calls, and limits.
	Internals bool
}

// An encoder encodes the events of one run in AG-UI for one client.
type encoder struct {
	o        Options
	started  bool
	lanes    map[string]*lane // lanes of the run, under "", and of its inner runs
	messages []json.RawMessage
	size     int    // total bytes of the run's messages, including dropped ones
	answer   string // text of the last message
	out      []chain.Encoded
	now      int64
}

// NewEncoder returns an encoder of the events of one run, new or resumed, in AG-UI for one client.
func NewEncoder(o Options) chain.Encoder {
	return &encoder{o: o, lanes: map[string]*lane{}}
}

// Protocol returns "ag-ui".
func (e *encoder) Protocol() string { return "ag-ui" }

// Encode encodes an event as zero or more AG-UI events.
func (e *encoder) Encode(ev abi.Event) []chain.Encoded {
	e.out, e.now = nil, ev.TimeMS
	e.start(ev)
	e.lane("").encode(ev)
	return e.out
}

// start sends RUN_STARTED once, before all other events.
func (e *encoder) start(ev abi.Event) {
	if e.started {
		return
	}
	e.started = true
	e.o.Thread, e.o.Run = either(e.o.Thread, ev.Run), either(e.o.Run, ev.Run)
	e.send(&event{Type: typeRunStarted, ThreadID: e.o.Thread, RunID: e.o.Run, ProtocolVersion: protocolVersion})
}

// fixed returns the keys of AG-UI events that modules cannot change.
func fixed() []string {
	return []string{
		"type",
		"timestamp",
		"subagentRunId",
		"threadId",
		"runId",
		"protocolVersion",
		"parentRunId",
		"stepName",
		"messageId",
		"role",
		"toolCallId",
		"toolCallName",
		"parentMessageId",
		"parentSubagentRunId",
		"parentToolCallId",
		"code",
		"outcome",
		"usage",
	}
}

func (e *encoder) send(x *event) {
	x.Timestamp = e.now
	b, err := abijson.Marshal(x)
	if err != nil {
		return // unreachable: the raw JSON in events was valid when it was decoded
	}
	keep := true
	switch x.Type {
	case typeTextContent, typeReasoningContent, typeCallArgs, typeCallResult, typeCustom, typeMessages:
		keep = false
	}
	e.out = append(e.out, chain.Encoded{JSON: b, Fixed: fixed(), Keep: keep})
}

// maxMessageBytes limits the bytes of a run's messages that an encoder stores for snapshots. Beyond it,
// clients receive the custom event "message_replaced" instead of a snapshot.
const maxMessageBytes = 4 << 20

// addMessage stores a message for snapshots. Beyond maxMessageBytes, it drops all messages.
func (e *encoder) addMessage(m message) {
	if e.size > maxMessageBytes {
		return
	}
	b, err := abijson.Marshal(m)
	if err != nil {
		return
	}
	if e.size += len(b); e.size > maxMessageBytes {
		e.messages = nil
		return
	}
	e.messages = append(e.messages, b)
}

// snapshot sends all messages to the client, or only the changed message m if the encoder does not
// have all of them.
func (e *encoder) snapshot(m message) {
	if e.o.Messages == nil || e.size > maxMessageBytes {
		e.send(&event{
			Type:     typeCustom,
			Subagent: m.Subagent,
			Name:     "message_replaced",
			Value:    map[string]any{"messageId": m.ID, "content": m.Content},
		})
		return
	}
	e.send(&event{Type: typeMessages, Messages: slices.Concat(e.o.Messages, e.messages)})
}

func (e *encoder) lane(run string) *lane {
	l := e.lanes[run]
	if l == nil {
		l = &lane{e: e, sub: run, calls: map[int]string{}, sentCalls: map[string]bool{}}
		e.lanes[run] = l
	}
	return l
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// correct sends m, the run's final answer, which differs from the last answer that was sent. If the
// run's last assistant message has no tool calls, correct replaces the message's content with the
// content of m. Otherwise it sends m as another message.
func (e *encoder) correct(ev abi.Event, m *abi.Message) {
	text := m.Content.String()
	for i := len(e.messages) - 1; i >= 0; i-- {
		var last message
		if json.Unmarshal(e.messages[i], &last) != nil || last.Role != "assistant" || last.Subagent != "" {
			continue
		}
		if len(last.ToolCalls) > 0 {
			break
		}
		last.Content = text
		if b, err := abijson.Marshal(last); err == nil {
			e.messages[i] = b
		}
		e.snapshot(last)
		return
	}
	l := e.lane("")
	l.open(ev)
	l.addText(text)
	l.closeMessage()
}
