package chat

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
)

// finish_reason, as OpenAI has it.
const (
	finishStop     = "stop"
	finishLength   = "length"
	finishTools    = "tool_calls"
	finishFiltered = "content_filter"
)

// A turn is what the agent has said in a run, as a client of completions is told.
type turn struct {
	said     strings.Builder // that was told as it came
	step     strings.Builder // of the step, as it was told
	steps    []string        // of the steps that are over, as their messages have it
	replaced bool            // a message is not what was told of it
	finish   string
	refused  string
	usage    *abi.Usage
	waiting  []abi.Pending
	notice   string
}

// take takes an event, and returns what is to be told of it now.
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
	case c.CallID != "" || c.Text == "": // of a tool, or of a call
		return nil
	case c.Kind == abi.ChunkReasoning:
		return []map[string]any{{"reasoning_content": c.Text}}
	case c.Kind == abi.ChunkText:
		return t.tell(c.Text)
	}
	return nil
}

// tell tells of text of the step, behind a blank line if there is some before it.
func (t *turn) tell(text string) []map[string]any {
	if t.step.Len() == 0 && t.said.Len() > 0 {
		text = "\n\n" + text
		t.step.WriteString(text[2:])
	} else {
		t.step.WriteString(text)
	}
	t.said.WriteString(text)
	return []map[string]any{{"content": text}}
}

// message ends the text of a step: the message is what counts.
func (t *turn) message(e abi.Event) []map[string]any {
	text := e.Message.Content.String()
	told := t.step.String()
	var out []map[string]any
	switch {
	case told == "" && text != "": // it was not streamed
		out = t.tell(text)
	case told != text:
		t.replaced = true
	}
	if text != "" {
		t.steps = append(t.steps, text)
	}
	t.step.Reset()
	return out
}

// pause ends the turn with what the run waits for.
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
	t.notice = fmt.Sprintf("(The run waits for an answer: %s)", strings.Join(reasons, "; "))
	t.steps = append(t.steps, t.notice)
	return t.tell(t.notice)
}

// end ends the turn.
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
		case last >= 0 && m.Role == abi.RoleAssistant: // after_agent made another of it
			t.steps[last], t.replaced = text, true
		default: // a tool's result is the answer
			t.steps = append(t.steps, text)
			return t.tell(text)
		}
	}
	return nil
}

// text is the completion.
func (t *turn) text() string { return strings.Join(t.steps, "\n\n") }

// corrected is the completion where it is not what was told while it came.
func (t *turn) corrected() (string, bool) {
	whole := t.text()
	return whole, t.replaced && whole != t.said.String()
}

// refusal is why a module stopped the run; nil if none did.
func (t *turn) refusal() any {
	if t.finish != finishFiltered {
		return nil
	}
	return t.refused
}

// calls are those of the client's own tools that the run waits for.
func (t *turn) calls(run string, indexed bool) []map[string]any {
	var out []map[string]any
	for _, p := range t.waiting {
		if !tool.ByClientIs(p) {
			continue
		}
		c := map[string]any{"id": callID(run, p.ID), "type": "function", "function": map[string]any{"name": p.Call.Name, "arguments": p.Call.Arguments}}
		if indexed {
			c["index"] = len(out)
		}
		out = append(out, c)
	}
	return out
}

// about is what only clients of this server look at.
func (t *turn) about(run string) any {
	o := map[string]any{"run": run}
	if t.waiting != nil {
		o["interrupts"] = t.waiting
	}
	return o
}
