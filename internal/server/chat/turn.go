package chat

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// Values of OpenAI's finish_reason.
const (
	finishStop     = "stop"
	finishLength   = "length"
	finishTools    = "tool_calls"
	finishFiltered = "content_filter"
)

// A turn collects the contents of a completion from the events of a run: the text of its steps, its
// ending, and its usage.
type turn struct {
	streamed      strings.Builder // text that was streamed
	step          strings.Builder // text of the current step that was streamed
	steps         []string        // texts of the finished steps, from their messages
	replaced      bool            // a message or the answer differs from the streamed text
	finish        string
	refused       string
	usage         *abi.Usage
	waiting       []abi.Pending
	pendingNotice string
}

// bytes returns the size of the turn's text in memory.
func (t *turn) bytes() int {
	n := t.streamed.Len() + t.step.Len()
	for _, text := range t.steps {
		n += len(text)
	}
	return n
}

// take processes an event and returns the chunks to send for it.
func (t *turn) take(e abi.Event) []map[string]any {
	switch e.Type {
	case abi.EventChunk:
		return t.chunk(e.Chunk)
	case abi.EventMessage:
		return t.message(e)
	case abi.EventRunPaused:
		t.usage = e.Usage
		return t.pause(e.Interrupts)
	case abi.EventRunFinished:
		return t.end(e)
	}
	return nil
}

func (t *turn) chunk(c *abi.Chunk) []map[string]any {
	switch {
	case c.CallID != "" || c.Text == "": // text of a tool or of a tool call
		return nil
	case c.Kind == abi.ChunkReasoning:
		return []map[string]any{{"reasoning_content": c.Text}}
	case c.Kind == abi.ChunkText:
		return t.textChunk(c.Text)
	}
	return nil
}

// textChunk adds text to the current step, and returns the chunk for it. The first chunk of every
// step after the first step begins with a blank line.
func (t *turn) textChunk(text string) []map[string]any {
	if t.step.Len() == 0 && t.streamed.Len() > 0 {
		text = "\n\n" + text
		t.step.WriteString(text[2:])
	} else {
		t.step.WriteString(text)
	}
	t.streamed.WriteString(text)
	return []map[string]any{{"content": text}}
}

// message ends a step, whose text is then the message's text. If none of the text was streamed,
// message returns a chunk with all of it.
func (t *turn) message(e abi.Event) []map[string]any {
	text := e.Message.Content.String()
	full := t.step.String()
	var out []map[string]any
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

// pause ends the turn with the interrupts of a paused run.
func (t *turn) pause(interrupts []abi.Pending) []map[string]any {
	t.waiting = interrupts
	if waitsForClient(interrupts) {
		t.finish = finishTools
		return nil
	}
	t.finish = finishStop
	var reasons []string
	for _, p := range interrupts {
		reasons = append(reasons, p.Reason)
	}
	t.pendingNotice = fmt.Sprintf("(The run waits for an answer: %s)", strings.Join(reasons, "; "))
	t.steps = append(t.steps, t.pendingNotice)
	return t.textChunk(t.pendingNotice)
}

// end ends the turn with a run's finish reason. If the run's answer differs from the text of the
// last step, an answer of the assistant replaces that text, and any other answer follows it.
func (t *turn) end(e abi.Event) []map[string]any {
	t.usage = e.Usage
	switch e.FinishReason {
	case abi.RunStopped:
		t.finish, t.refused = finishFiltered, e.Reason
		if t.refused == "" {
			t.refused = "stopped by " + e.StoppedBy
		}
	case abi.RunMaxSteps, abi.RunLimit:
		t.finish = finishLength
	default:
		t.finish = finishStop
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

// text returns the text of the completion.
func (t *turn) text() string { return strings.Join(t.steps, "\n\n") }

// corrected returns the completion's text, and reports whether a message or the answer changed it
// after it was streamed.
func (t *turn) corrected() (string, bool) {
	whole := t.text()
	return whole, t.replaced && whole != t.streamed.String()
}

// refusal returns the reason if a module stopped the run, or nil.
func (t *turn) refusal() any {
	if t.finish != finishFiltered {
		return nil
	}
	return t.refused
}

// calls returns the calls of the client's tools that the run waits for. If indexed is true, each has
// its index, as the chunks of a stream need.
func (t *turn) calls(run string, indexed bool) []map[string]any {
	var out []map[string]any
	for _, p := range t.waiting {
		if !toolcall.IsClient(p) {
			continue
		}
		c := map[string]any{
			"id":       callID(run, p.ID),
			"type":     "function",
			"function": map[string]any{"name": p.Call.Name, "arguments": p.Call.Arguments},
		}
		if indexed {
			c["index"] = len(out)
		}
		out = append(out, c)
	}
	return out
}

// about returns the value of a completion's field agent_runner, which OpenAI's API does not have:
// the run, and the interrupts that it waits for.
func (t *turn) about(run string) any {
	o := map[string]any{"run": run}
	if t.waiting != nil {
		o["interrupts"] = t.waiting
	}
	return o
}
