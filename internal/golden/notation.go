package golden

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// Patterns of a message on one line: "role: text [tool#id {arguments}] …".
var (
	messageLine = regexp.MustCompile(`^(system|developer|user|assistant|tool)(?:#(\S+))?:(?: (.*))?$`)
	callAtEnd   = regexp.MustCompile(`^(.*?) ?\[([^\[\]#\s]*)#([^\[\]\s]*)(?: ([^\]]*))?\]$`)
)

// parseMessage parses a message on one line.
func parseMessage(line string) (abi.Message, error) {
	if strings.HasPrefix(line, "{") {
		var m abi.Message
		_, err := abijson.Decode([]byte(line), &m)
		return m, err
	}
	f := messageLine.FindStringSubmatch(line)
	if f == nil {
		return abi.Message{}, fmt.Errorf("%q is no message; want \"role: text [tool#id {arguments}]\" or JSON", line)
	}
	m := abi.Message{Role: f[1], ToolCallID: f[2]}
	text := f[3]
	for m.Role == abi.RoleAssistant {
		c := callAtEnd.FindStringSubmatch(text)
		if c == nil {
			break
		}
		text = c[1]
		if c[4] == "" {
			c[4] = "{}"
		}
		m.ToolCalls = append([]abi.ToolCall{abi.NewToolCall(c[3], c[2], c[4])}, m.ToolCalls...)
	}
	if text != "" || len(m.ToolCalls) == 0 {
		m.Content = abi.Text(unescape(text))
	}
	return m, nil
}

// formatMessage formats a message on one line.
func formatMessage(m abi.Message) string {
	head := m.Role
	if m.ToolCallID != "" {
		head += "#" + m.ToolCallID
	}
	text := escape(m.Content.String())
	if m.Content.IsParts() {
		b, _ := abijson.Marshal(m.Content)
		text = string(b)
	}
	if m.ReasoningContent != "" {
		text = "(" + escape(m.ReasoningContent) + ") " + text
	}
	for _, c := range m.ToolCalls {
		text += " " + formatCall(c.Function.Name, c.ID, c.Function.Arguments)
	}
	return strings.TrimSuffix(head+": "+strings.TrimPrefix(text, " "), " ")
}

func formatCall(name, id, arguments string) string {
	if arguments == "{}" {
		return fmt.Sprintf("[%s#%s]", name, id)
	}
	return fmt.Sprintf("[%s#%s %s]", name, id, arguments)
}

func escape(s string) string {
	return strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
}

func unescape(s string) string {
	return strings.NewReplacer(`\\`, "\\", `\n`, "\n", `\r`, "\r", `\t`, "\t").Replace(s)
}

// FormatEvent formats an event on one line, without fields that differ from run to run.
func FormatEvent(e abi.Event) string {
	switch e.Type {
	case abi.EventStepStarted, abi.EventStepFinished:
		return fmt.Sprintf("%s %d", e.Type, e.Step)
	case abi.EventChunk:
		return "chunk " + formatChunk(e.Chunk)
	case abi.EventMessage:
		return "message" + optional(" replaced", e.Replaced) + " " + formatMessage(*e.Message)
	case abi.EventToolCall:
		return "tool_call " + formatCall(e.Call.Name, e.Call.ID, e.Call.Arguments)
	case abi.EventToolResult:
		return "tool_result " + formatCall(e.Call.Name, e.Call.ID, e.Call.Arguments) + " " + e.Source +
			optional(" error", e.Result.IsError) + ": " + formatContent(e.Result.Content)
	case abi.EventDecision:
		return formatDecision(e)
	case abi.EventCustom:
		return strings.TrimSuffix(fmt.Sprintf("custom %s.%s %s %s", e.Entry, e.Hook, e.Name, e.Data), " ")
	case abi.EventLog:
		return fmt.Sprintf("log %s.%s %s: %s", e.Entry, e.Hook, e.Level, escape(e.Text))
	case abi.EventFault:
		return fmt.Sprintf("fault %s.%s %s: %s", e.Entry, e.Hook, e.Action, firstLine(e.Cause))
	case abi.EventModelAttempt:
		return fmt.Sprintf(
			"model_attempt %d %s: %s",
			e.Attempt,
			e.Model,
			firstLine(e.Error.Message),
		) + optional(
			", then "+e.Next,
			e.Next != e.Model,
		)
	case abi.EventRepair:
		return "repair " + formatRepair(&e)
	case abi.EventTransfer:
		return fmt.Sprintf("transfer %s to %s", e.From, e.Agent)
	case abi.EventLabels:
		return fmt.Sprintf("labels %s.%s %s", e.Entry, e.Hook, e.Data)
	case abi.EventLimit:
		return "limit " + e.Limit + optional(" of "+e.Name, e.Name != "") + fmt.Sprintf(" %d %s", e.Value, e.Action)
	case abi.EventChild:
		return "child " + formatCall(e.Call.Name, e.Call.ID, e.Call.Arguments) + " " + FormatEvent(*e.Event)
	case abi.EventRunPaused:
		return "run_paused" + formatPending(e.Interrupts)
	case abi.EventRunFinished:
		return formatFinished(e)
	default:
		return string(e.Type)
	}
}

// formatDecision formats a decision without the digest of the arguments and the person who
// answered.
func formatDecision(e abi.Event) string {
	d := e.Decision
	s := fmt.Sprintf("decision %s.%s %s [%s#%s]", e.Entry, e.Hook, d.Decision, d.Tool, d.CallID)
	if d.Answered {
		s += " answered"
	}
	if d.Approver != "" {
		s += " by " + d.Approver
	}
	if d.Reason != "" {
		s += ": " + escape(d.Reason)
	}
	return s
}

func formatRepair(e *abi.Event) string {
	if e.Call == nil {
		return fmt.Sprintf("%s %d", e.Action, e.Value)
	}
	return e.Action + " " + e.Call.Name + "#" + e.Call.ID
}

func formatFinished(e abi.Event) string {
	s := "run_finished " + e.FinishReason
	if e.StoppedBy != "" {
		s += " by " + e.StoppedBy + ": " + e.Reason
	}
	if e.Error != nil {
		s += " " + string(e.Error.Code) + ": " + firstLine(e.Error.Message)
	}
	if e.Message != nil {
		s += " " + formatMessage(*e.Message)
	}
	return s
}

func formatPending(list []abi.Pending) string {
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintf(&b, " %s.%s: %s", p.Entry, p.Hook, p.Reason)
		if p.Call != nil {
			b.WriteString(" " + formatCall(p.Call.Name, p.Call.ID, p.Call.Arguments))
		}
	}
	return b.String()
}

func formatContent(c abi.Content) string {
	if c.IsParts() {
		b, _ := abijson.Marshal(c)
		return string(b)
	}
	return escape(c.String())
}

func formatChunk(c *abi.Chunk) string {
	switch c.Kind {
	case abi.ChunkToolCall:
		return fmt.Sprintf("tool_call %d %s#%s %s", c.Index, c.Name, c.ID, c.Arguments)
	case abi.ChunkPart:
		b, _ := abijson.Marshal(c.Part)
		return "part " + string(b)
	default:
		return c.Kind + " " + strconv.Quote(c.Text)
	}
}

func optional(s string, want bool) string {
	if want {
		return s
	}
	return ""
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
