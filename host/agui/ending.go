package agui

import (
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/modelfailure"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// pause sends the pending interrupts of the run. It reports a paused inner run as suspended. Calls of
// front-end tools are not sent as interrupts: the client runs these tools, and sends the results as
// messages of its next request. A run with no other interrupts is reported as finished.
func (l *lane) pause(ev abi.Event) {
	l.close()
	if l.sub != "" {
		o := &outcome{Type: "suspended"}
		for _, p := range ev.Interrupts {
			o.InterruptIDs = append(o.InterruptIDs, p.ID)
		}
		l.begun = false // the client's next run may continue the inner run
		l.send(&event{Type: typeSubagentFinished, Outcome: o})
		return
	}
	l.e.closeChildren()
	o := &outcome{Type: "interrupt"}
	for _, p := range ev.Interrupts {
		if !toolcall.IsClient(p) {
			o.Interrupts = append(o.Interrupts, interruptOf(p))
		}
	}
	if len(o.Interrupts) == 0 {
		o.Type = "success"
	}
	l.send(&event{Type: typeRunFinished, ThreadID: l.e.o.Thread, RunID: l.e.o.Run, Outcome: o})
}

// closeChildren reports each inner run whose end the encoder has not received as suspended.
func (e *encoder) closeChildren() {
	for _, run := range slices.Backward(slices.Sorted(maps.Keys(e.lanes))) {
		if l := e.lanes[run]; run != "" && l.begun {
			l.begun = false
			l.close()
			l.send(&event{Type: typeSubagentFinished, Outcome: &outcome{Type: "suspended"}})
		}
	}
}

// Values of interrupt.Reason. A client may show a different form for each.
const (
	reasonApproval = "tool_call_approval"
	reasonInput    = "input_required"
)

func interruptOf(p abi.Pending) interrupt {
	out := interrupt{ID: p.ID, Subagent: p.Run, Reason: reasonInput, Message: p.Reason, Metadata: map[string]any{}}
	if p.Entry != "" {
		out.Metadata["entry"] = p.Entry
	}
	if len(p.Payload) > 0 {
		out.Metadata["payload"] = p.Payload
	}
	if p.Call != nil {
		out.ToolCallID = p.Call.ID
		out.Metadata["toolCallName"], out.Metadata["arguments"] = p.Call.Name, p.Call.Arguments
	}
	if p.Hook == abi.HookGateTool {
		out.Reason = reasonApproval
		out.ResponseSchema = map[string]any{
			"type": "object",
			"properties": map[string]any{
				"decision":  map[string]any{"enum": []string{abi.Approve, abi.Reject, abi.Edit}},
				"message":   map[string]any{"type": "string"},
				"arguments": map[string]any{"type": "string"},
			},
			"required": []string{"decision"},
		}
	}
	return out
}

// finish closes the open message and step, and sends the outcome of the run. If the run is not an
// inner one, finish also closes the inner runs, and corrects the answer if the final one differs.
func (l *lane) finish(ev abi.Event) {
	l.close()
	if l.sub != "" {
		l.finishChild(ev)
		return
	}
	l.e.closeChildren()
	if m := ev.Message; m != nil && m.Role == abi.RoleAssistant && m.Content.String() != l.e.answer {
		l.e.correct(ev, m)
	}
	x := &event{Type: typeRunFinished, ThreadID: l.e.o.Thread, RunID: l.e.o.Run, Outcome: &outcome{Type: "success"}}
	switch ev.FinishReason {
	case abi.RunStop, abi.RunReturnDirectly:
	case abi.RunCanceled:
		x.Outcome.Type = "cancelled"
	default:
		x = &event{Type: typeRunError, Code: ev.FinishReason, Message: l.failure(ev)}
	}
	if u := ev.Usage; u != nil && u.TotalTokens > 0 {
		x.Usage = []usage{
			{Model: l.model, InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, TotalTokens: u.TotalTokens},
		}
	}
	l.send(x)
}

func (l *lane) finishChild(ev abi.Event) {
	l.begun = false
	delete(l.e.lanes, l.sub)
	if ev.FinishReason == abi.RunStop || ev.FinishReason == abi.RunReturnDirectly {
		x := &event{Type: typeSubagentFinished, Outcome: &outcome{Type: "success"}}
		if ev.Message != nil {
			x.Result = ev.Message.Content.String()
		}
		l.send(x)
		return
	}
	l.send(&event{Type: typeSubagentError, Code: ev.FinishReason, Message: l.failure(ev)})
}

// failure returns the reason of a run's end. Only a client with Internals receives the model's
// address and its endpoint's message.
func (l *lane) failure(ev abi.Event) string {
	how, byModel := modelfailure.EndedBy(&ev)
	switch {
	case ev.Reason != "":
		return ev.Reason
	case byModel && !l.e.o.Internals:
		return how
	case ev.Error != nil:
		return ev.Error.Message
	}
	return "the run ended: " + ev.FinishReason
}
