package agentmodel

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// A piece is a part of a response's text. kind is the kind of chunk that it comes from, such as
// [abi.ChunkText].
type piece struct{ kind, text string }

// A turn collects the contents of a response from the events of a run: the text of its steps, its
// finish reason and its usage.
type turn struct {
	final    bool            // collect only the text of the final step
	streamed strings.Builder // text that was streamed
	step     strings.Builder // streamed text of the current step
	steps    []string        // texts of the finished steps, from their messages
	replaced bool            // a message or the answer differs from the streamed text
	finish   string
	cut      string // the model's finish reason of the last step, if it did not finish
	refused  string
	usage    *abi.Usage
	waiting  []abi.Pending
}

// bytes returns the size of the turn's text in memory.
func (t *turn) bytes() int {
	n := t.streamed.Len() + t.step.Len()
	for _, text := range t.steps {
		n += len(text)
	}
	return n
}

// take adds an event to the turn and returns the text to send for it.
func (t *turn) take(e abi.Event) []piece {
	var out []piece
	switch e.Type {
	case abi.EventChunk:
		out = t.chunk(e.Chunk)
	case abi.EventMessage:
		t.cut = e.FinishReason
		out = t.message(e)
	case abi.EventRunPaused:
		t.usage = e.Usage
		return t.pause(e.Interrupts)
	case abi.EventRunFinished:
		return t.end(e)
	}
	if t.final {
		return nil
	}
	return out
}

func (t *turn) chunk(c *abi.Chunk) []piece {
	switch {
	case c.CallID != "" || c.Text == "" || t.final: // text of a tool or of a tool call
		return nil
	case c.Kind == abi.ChunkReasoning:
		return []piece{{c.Kind, c.Text}}
	case c.Kind == abi.ChunkText:
		return t.textChunk(c.Text)
	}
	return nil
}

// textChunk adds text to the current step, and returns the piece for it. The first piece of every
// step after the first step begins with a blank line.
func (t *turn) textChunk(text string) []piece {
	if t.step.Len() == 0 && t.streamed.Len() > 0 {
		text = "\n\n" + text
		t.step.WriteString(text[2:])
	} else {
		t.step.WriteString(text)
	}
	t.streamed.WriteString(text)
	return []piece{{abi.ChunkText, text}}
}

// message ends a step. The text of the step is that of the message in e, whatever was streamed. If
// nothing was streamed, message returns this text.
func (t *turn) message(e abi.Event) []piece {
	if t.final {
		return nil
	}
	text := e.Message.Content.String()
	full := t.step.String()
	var out []piece
	switch {
	case full == "" && text != "": // the text was not streamed
		out = t.textChunk(text)
	case full != text:
		t.replaced = true
	}
	if text != "" {
		t.steps = append(t.steps, text)
	}
	t.step.Reset()
	return out
}

// pause ends the turn of a paused run. If the run does not wait for the client's tools, pause adds
// and returns a text with the reasons of the interrupts.
func (t *turn) pause(interrupts []abi.Pending) []piece {
	t.waiting = interrupts
	if waitsForClient(interrupts) {
		t.finish = abi.FinishToolCalls
		return nil
	}
	t.finish = abi.FinishStop
	var reasons []string
	for _, p := range interrupts {
		reasons = append(reasons, p.Reason)
	}
	notice := "(The run waits for an answer.)" // the caller may not see the questions
	if len(reasons) > 0 {
		notice = fmt.Sprintf("(The run waits for an answer: %s)", strings.Join(reasons, "; "))
	}
	t.steps = append(t.steps, notice)
	return t.textChunk(notice)
}

// end ends the turn with a run's finish reason. If the run's answer has text that differs from the text
// of the last step, an answer of the assistant replaces the step's text. If the answer is not of the
// assistant, or no step has text, end adds and returns the answer's text.
func (t *turn) end(e abi.Event) []piece {
	t.usage = e.Usage
	switch e.FinishReason {
	case abi.RunStopped:
		t.finish, t.refused = abi.FinishFilter, cmp.Or(e.Reason, "stopped by "+e.StoppedBy)
	case abi.RunMaxSteps, abi.RunLimit:
		t.finish = abi.FinishLength
	default:
		t.finish = cmp.Or(t.cut, abi.FinishStop)
	}
	if m := e.Message; m != nil {
		text, last := m.Content.String(), len(t.steps)-1
		switch {
		case text == "" || last >= 0 && t.steps[last] == text:
		case last >= 0 && m.Role == abi.RoleAssistant: // after_agent changed it
			t.steps[last], t.replaced = text, true
		default: // a tool's result, or the answer of a run whose steps have no text
			t.steps = append(t.steps, text)
			return t.textChunk(text)
		}
	}
	return nil
}

// text returns the text of the response.
func (t *turn) text() string { return strings.Join(t.steps, "\n\n") }

// corrected returns the response's text, and reports whether it differs from the streamed text because
// a message or the answer replaced streamed text.
func (t *turn) corrected() (string, bool) {
	whole := t.text()
	return whole, t.replaced && whole != t.streamed.String()
}

// calls returns the calls of the client's tools that the run waits for.
func (t *turn) calls(run string) []abi.ToolCall {
	var out []abi.ToolCall
	for _, p := range t.waiting {
		if toolcall.IsClient(p) {
			out = append(out, abi.NewToolCall(callID(run, p.ID), p.Call.Name, p.Call.Arguments))
		}
	}
	return out
}

// waitsForClient reports whether a paused run waits for at least one tool of the client.
func waitsForClient(interrupts []abi.Pending) bool {
	for _, p := range interrupts {
		if toolcall.IsClient(p) {
			return true
		}
	}
	return false
}
