package rerun

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// ContentText returns content as text, with a placeholder such as "[image]" for a part that
// is not text.
func ContentText(c abi.Content) string {
	if !c.IsParts() {
		return c.String()
	}
	var b strings.Builder
	for _, p := range c.Parts() {
		b.WriteString(PartText(&p))
	}
	return b.String()
}

// PartText returns a part of an answer as text. Reasoning is not a part of the answer.
func PartText(p *abi.Part) string {
	switch {
	case p.Type == abi.PartText:
		return p.Text
	case wire.IsReasoning(p):
		return ""
	}
	return "[" + strings.TrimSuffix(p.Type, "_url") + "]"
}

// oneLine replaces each run of white space in s with a space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// count formats a number with a noun, which gets a plural s unless n is 1.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// after returns prefix followed by s, or an empty string if s is empty.
func after(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
