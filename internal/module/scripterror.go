package module

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/module/javascript"
)

// A scriptError is the cause of a fault: a mistake in a script.
type scriptError struct {
	text  string
	limit *overLimit // that the script passed; may be nil
	stack []string   // places in the sources, innermost first
	frame []string   // the lines around the first
}

func (e *scriptError) Error() string { return e.text }

// What is kept of what a script says that it threw, which can be anything.
const (
	maxThrown = 2 << 10 // bytes
	maxStack  = 30      // lines
)

// thrown makes an error of what the script, or the engine, wrote as its last words.
func (s *script) thrown(v *visit, outcome int32) error {
	var t javascript.Thrown
	switch outcome {
	case 0, 1: // it was over, and went on
	case javascript.Broken:
		first, stack, _ := strings.Cut(string(v.output), "\n")
		t.Message, t.Stack = "the engine gave up: "+first, stack
		if first == "" {
			t.Message = "the engine gave up, probably for want of memory"
		}
	case javascript.Threw:
		if err := json.Unmarshal(v.output, &t); err != nil {
			return &scriptError{text: "threw something that cannot be read"}
		}
	default:
		t.Message = fmt.Sprintf("returned %d", outcome)
	}
	if v.over != nil {
		t.Name, t.Message = "", v.over.text
	}
	e := &scriptError{text: t.Message, limit: v.over}
	if t.Name != "" {
		e.text = t.Name + ": " + t.Message
	}
	e.text = printable(e.text, maxThrown)
	sources := s.where()
	for line := range strings.Lines(t.Stack) {
		if line = strings.TrimSpace(line); line == "" || len(e.stack) == maxStack {
			continue
		}
		if strings.Contains(line, "(host:") || strings.HasPrefix(line, "at host:") || strings.HasSuffix(line, "(native)") {
			continue // the prelude's own
		}
		e.stack = append(e.stack, printable(sources.Translate(line), 256))
	}
	if p, ok := sources.First(t.Stack); ok {
		e.text += " (" + printable(p.String(), 256) + ")"
		if frame := sources.Frame(p); frame != "" {
			for line := range strings.SplitSeq(frame, "\n") {
				e.frame = append(e.frame, printable(line, 256))
			}
		}
	}
	return e
}

// printable is a text that a terminal can be shown.
func printable(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.Map(shown, s)
}
