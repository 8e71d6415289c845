// Package five implements the logic of the benchmark's five middlewares. The compared Go programs
// share it, so that they differ only in how they call the middlewares.
package five

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// Patch returns splices that add an answer to each call without one.
func Patch(messages []abi.Message) []abi.Splice {
	answered := map[string]bool{}
	for i := range messages {
		if messages[i].Role == abi.RoleTool {
			answered[messages[i].ToolCallID] = true
		}
	}
	var out []abi.Splice
	for i := range messages {
		var insert []abi.Message
		for _, c := range messages[i].ToolCalls {
			if !answered[c.ID] {
				insert = append(insert, abi.ToolMessage(c.ID, c.Function.Name, abi.Text("This call was canceled.")))
			}
		}
		if insert != nil {
			out = append(out, abi.Splice{At: i + 1, Insert: insert})
		}
	}
	return out
}

// Allowed reports whether a tool may be called with these arguments. If not, it also returns the
// reason.
func Allowed(name, arguments string) (bool, string) {
	if name == "delete" || strings.Contains(arguments, "/etc/") {
		return false, "this is not allowed here"
	}
	return true, ""
}

// Redact replaces each email address in text with "[address]". It returns the new text and the
// number of addresses.
func Redact(text string) (string, int) {
	if !strings.Contains(text, "@") {
		return text, 0
	}
	var b strings.Builder
	n := 0
	for {
		at := strings.IndexByte(text, '@')
		if at < 0 {
			b.WriteString(text)
			return b.String(), n
		}
		from, to := at, at+1
		for from > 0 && address(text[from-1]) {
			from--
		}
		for to < len(text) && address(text[to]) {
			to++
		}
		if from == at || to == at+1 {
			b.WriteString(text[:to])
		} else {
			b.WriteString(text[:from])
			b.WriteString("[address]")
			n++
		}
		text = text[to:]
	}
}

func address(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_'
}

// Key returns the key under which a tool's answer is cached.
func Key(name, arguments string) string { return name + " " + arguments }

// Counted lists the types of events that the observer receives.
var Counted = []abi.EventType{abi.EventMessage, abi.EventToolResult}

// Count adds the events of a batch to an observer's counts.
func Count(counts map[string]int, events []abi.Event) {
	for i := range events {
		counts[string(events[i].Type)]++
	}
}
