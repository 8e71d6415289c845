package script

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
)

// An Error is the cause of a fault because a script has an uncaught error or exceeded a limit.
type Error struct {
	Text  string
	Limit *ExceededLimit // the limit that the script exceeded; may be nil
	Stack []string       // positions in the sources, innermost first
	Frame []string       // source lines around the first position
}

func (e *Error) Error() string { return e.Text }

// Limits on the stored parts of a thrown value, which can have any size.
const (
	maxThrown = 2 << 10 // bytes
	maxStack  = 30      // lines
)

// thrown returns the error for the outcome and the output of a call. If the script exceeded a
// limit, the error says so instead of naming the thrown value. Positions are those in the sources,
// if known.
func (s *Transport) thrown(inv *invoke.Invocation, outcome int32) error {
	var t javascript.Thrown
	switch outcome {
	case 0, 1: // the script continued after it was asked to end
	case javascript.Broken:
		first, stack, _ := strings.Cut(string(inv.Output), "\n")
		t.Message, t.Stack = "the engine failed: "+first, stack
		if first == "" {
			t.Message = "the engine failed, probably because it ran out of memory"
		}
	case javascript.Threw:
		if err := json.Unmarshal(inv.Output, &t); err != nil {
			return &Error{Text: "threw a value that cannot be decoded"}
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
	for line := range strings.Lines(javascript.WithoutPrelude(t.Stack)) {
		if line = strings.TrimSpace(line); line == "" || len(e.Stack) == maxStack || strings.HasSuffix(line, "(native)") {
			continue
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
