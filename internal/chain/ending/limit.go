package ending

import "fmt"

// A LimitError ends the run because the run has used up one of its limits.
type LimitError struct {
	Limit string `json:"limit"`          // "max_steps", "model_calls" or "tool_calls"
	Tool  string `json:"tool,omitempty"` // the tool, for the limit of a single tool
	Value int64  `json:"value"`          // the limit's value, a count
}

// Error names the limit and says what to do about it.
func (l *LimitError) Error() string {
	const advice = "; raise the limit of %s, or find the reason in its events"
	switch {
	case l.Limit == "max_steps":
		return fmt.Sprintf("the run used all its %d steps without coming to an answer"+advice, l.Value, "steps")
	case l.Limit == "model_calls":
		return fmt.Sprintf("the run used all its %d model calls without coming to an answer"+advice, l.Value, "model calls")
	case l.Tool != "":
		return fmt.Sprintf("the run used all its %d calls of %s, and its model calls it once more"+advice, l.Value, l.Tool,
			"this tool")
	default:
		return fmt.Sprintf("the run used all its %d tool calls, and its model asks for more"+advice, l.Value, "tool calls")
	}
}
