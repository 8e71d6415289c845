package script

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
)

// A Error is the cause of a fault: a mistake in a script.
type Error struct {
	Text  string
	Limit *Exceeded // that the script passed; may be nil
	Stack []string  // places in the sources, innermost first
	Frame []string  // the lines around the first
}

func (e *Error) Error() string { return e.Text }

// What is kept of what a script says that it threw, which can be anything.
const (
	maxThrown = 2 << 10 // bytes
	maxStack  = 30      // lines
)

// thrown makes an error of what the script, or the engine, wrote as its last words.
func (s *Transport) thrown(inv *invoke.Invocation, outcome int32) error {
	var t javascript.Thrown
	switch outcome {
	case 0, 1: // it was over, and went on
	case javascript.Broken:
		first, stack, _ := strings.Cut(string(inv.Output), "\n")
		t.Message, t.Stack = "the engine gave up: "+first, stack
		if first == "" {
			t.Message = "the engine gave up, probably for want of memory"
		}
	case javascript.Threw:
		if err := json.Unmarshal(inv.Output, &t); err != nil {
			return &Error{Text: "threw something that cannot be read"}
		}
	default:
		t.Message = fmt.Sprintf("returned %d", outcome)
	}
	over := stateOf(inv).over
	if over != nil {
		t.Name, t.Message = "", over.text
	}
	e := &Error{Text: t.Message, Limit: over}
	if t.Name != "" {
		e.Text = t.Name + ": " + t.Message
	}
	e.Text = invoke.Printable(e.Text, maxThrown)
	sources := s.where()
	for line := range strings.Lines(t.Stack) {
		if line = strings.TrimSpace(line); line == "" || len(e.Stack) == maxStack {
			continue
		}
		if strings.Contains(line, "(host:") || strings.HasPrefix(line, "at host:") || strings.HasSuffix(line, "(native)") {
			continue // the prelude's own
		}
		e.Stack = append(e.Stack, invoke.Printable(sources.Translate(line), 256))
	}
	if p, ok := sources.First(t.Stack); ok {
		e.Text += " (" + invoke.Printable(p.String(), 256) + ")"
		if frame := sources.Frame(p); frame != "" {
			for line := range strings.SplitSeq(frame, "\n") {
				e.Frame = append(e.Frame, invoke.Printable(line, 256))
			}
		}
	}
	return e
}
