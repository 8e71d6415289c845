package main

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// line formats an event as a line, and returns its level. The line is empty for events that are not
// logged. began holds the start times of unfinished operations.
func (l *callLog) line(e *abi.Event, began map[string]int64) (level int, text string) {
	switch e.Type {
	case abi.EventMessage:
		return middleware.LogInfo, middleware.Sprintf("step %d: %s", e.Step, l.message(e.Message))
	case abi.EventToolCall:
		return middleware.LogDebug, middleware.Sprintf(
			"step %d: %s#%s%s",
			e.Step,
			e.Call.Name,
			e.Call.ID,
			l.preview(" ", e.Call.Arguments),
		)
	case abi.EventToolResult:
		level, verdict := middleware.LogInfo, "ok"
		if e.Result.IsError {
			level, verdict = middleware.LogWarn, "failed"
		}
		if e.Source != "tool" {
			verdict += " by " + e.Source
		}
		content := e.Result.Content.String()
		return level, middleware.Sprintf("step %d: %s#%s %s%s, %d bytes%s", e.Step, e.Call.Name, e.Call.ID, verdict,
			l.since(e, began, "call/"+e.Call.ID), len(content), l.preview(": ", content))
	case abi.EventCustom:
		return middleware.LogDebug, middleware.Sprintf(
			"step %d: %s says %s%s",
			e.Step,
			e.Entry,
			e.Name,
			l.preview(" ", string(e.Data)),
		)
	case abi.EventFault:
		return middleware.LogError, middleware.Sprintf(
			"step %d: fault of %s in %s, %s: %s",
			e.Step,
			e.Entry,
			e.Hook,
			e.Action,
			e.Cause,
		)
	case abi.EventRunFinished:
		return l.finished(e, began)
	default:
		return 0, ""
	}
}

func (l *callLog) message(m *abi.Message) string {
	if len(m.ToolCalls) == 0 {
		return middleware.Sprintf("answer, %d bytes%s", len(m.Content.String()), l.preview(": ", m.Content.String()))
	}
	var names []string
	for _, c := range m.ToolCalls {
		names = append(names, c.Function.Name)
	}
	return "calls " + strings.Join(names, ", ")
}

func (l *callLog) finished(e *abi.Event, began map[string]int64) (level int, text string) {
	level, text = middleware.LogInfo, middleware.Sprintf(
		"%s after %d steps%s",
		e.FinishReason,
		e.Step,
		l.since(e, began, "run"),
	)
	if e.Usage != nil && e.Usage.TotalTokens > 0 {
		text += middleware.Sprintf(", %d tokens", e.Usage.TotalTokens)
	}
	switch {
	case e.Error != nil:
		return middleware.LogError, text + ": " + e.Error.Message
	case e.StoppedBy != "":
		return middleware.LogWarn, text + " by " + e.StoppedBy + ": " + e.Reason
	default:
		return level, text
	}
}

// since formats the duration of a finished operation. It returns "" if durations are off or the
// start is unknown.
func (l *callLog) since(e *abi.Event, began map[string]int64, what string) string {
	at, ok := began[what]
	if !ok || !l.Times {
		return ""
	}
	return middleware.Sprintf(", %d ms", e.TimeMS-at)
}

// preview returns the separator and the first l.Preview characters of text, on one line. It
// returns "" if text is empty or previews are off.
func (l *callLog) preview(separator, text string) string {
	if l.Preview == 0 || text == "" {
		return ""
	}
	n := 0
	for i := range text {
		if n++; n > l.Preview {
			text = text[:i] + "…"
			break
		}
	}
	return separator + strings.Join(strings.Fields(text), " ")
}
