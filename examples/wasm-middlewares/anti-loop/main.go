// Command anti-loop is a middleware that detects a model repeating itself. It first sends
// the model a hint, and stops the run if that does not help.
package main

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/callkey"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "anti-loop",
		Version:     "1.0.0",
		Description: "Tells the model that it does the same again and again, and then stops the run.",
	}, newAntiLoop())
}

func main() {}

func newAntiLoop() *antiLoop {
	return &antiLoop{HintAfter: 3, StopAfter: 6, Window: 40, Results: true}
}

type antiLoop struct {
	HintAfter int      `json:"hint_after" doc:"the model gets a hint after this many repetitions; 0: never"`
	StopAfter int      `json:"stop_after" doc:"the run is stopped when it has done the same this many times; 0: never"`
	Window    int      `json:"window" doc:"the number of earlier messages to compare with, at most back to the user's last message"`
	Results   bool     `json:"results" doc:"a call is the same only if it had the same result: to ask until something has changed is no loop"`
	Except    []string `json:"except" doc:"tools that may be called again and again, by their names, * for any characters"`
	Hint      string   `json:"hint" doc:"the hint for the model; %s is the repeated action, %d the number of repetitions"`
}

// hint is the default text for the model.
const hint = "You have %s %d times in this task, with nothing new to show for it. Doing it again will not help. Try another way, or answer with what you know and say what you could not find out."

// minText is the minimum length, in bytes, at which text with tool calls is counted: models
// write "Let me look." with every call.
const minText = 80

// Configure validates the configuration.
func (a *antiLoop) Configure(*middleware.Context) error {
	for _, c := range []struct {
		isError bool
		reason  string
	}{
		{a.HintAfter < 0 || a.HintAfter == 1 || a.StopAfter < 0 || a.StopAfter == 1, "hint_after and stop_after are at least 2: once is no loop; or 0, for never"},
		{a.HintAfter == 0 && a.StopAfter == 0, "hint_after and stop_after are both 0: the module would do nothing"},
		{a.StopAfter > 0 && a.HintAfter >= a.StopAfter, middleware.Sprintf("hint_after: %d must be below stop_after, so that the model has a chance", a.HintAfter)},
		{a.Window < 2*max(a.HintAfter, a.StopAfter), middleware.Sprintf("window: %d messages cannot show %d calls with their results", a.Window, max(a.HintAfter, a.StopAfter))},
		{a.Window > 10_000, "window: at most 10000 messages"},
		{a.Hint != "" && (strings.Count(a.Hint, "%") != 2 || !strings.Contains(a.Hint, "%s") || strings.Index(a.Hint, "%d") < strings.Index(a.Hint, "%s")), "hint: want one %s, one %d behind it, and no other %"},
	} {
		if c.isError {
			return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + c.reason}
		}
	}
	if a.Hint == "" {
		a.Hint = hint
	}
	return nil
}

// An action is a call or a message text of the model.
type action struct{ what, key string }

// BeforeModelRewriteState checks whether the model's last message repeats earlier ones. If it does
// so often enough, it emits an event, and appends a hint or stops the run.
func (a *antiLoop) BeforeModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	counts, last := a.count(state.Messages)
	var worst action
	limit := 0
	for _, d := range last {
		if n := counts[d.key]; n > limit {
			worst, limit = d, n
		}
	}
	stop := a.StopAfter > 0 && limit >= a.StopAfter
	if !stop && (a.HintAfter == 0 || limit < a.HintAfter) {
		return nil
	}
	if err := ctx.Emit("loop", map[string]any{"what": worst.what, "times": limit, "stopped": stop}); err != nil {
		return err
	}
	if stop {
		return ctx.Stop(middleware.Sprintf("The model has %s %d times.", worst.what, limit), "loop")
	}
	state.Messages.Append(abi.User(middleware.Sprintf(a.Hint, worst.what, limit)))
	return nil
}

// count goes back to the user's last message, but over at most Window messages. It returns the
// number of model messages that contain each action, and the actions of the last model message.
func (a *antiLoop) count(messages *middleware.Messages) (counts map[string]int, last []action) {
	counts = map[string]int{}
	results := map[string]string{}
	seen := 0
	for _, m := range messages.Backward() {
		if seen++; seen > a.Window || m.Role == abi.RoleUser && !strings.HasPrefix(m.Origin, "module:") {
			break
		}
		if m.Role == abi.RoleTool {
			results[m.ToolCallID] = m.Content.String()
		}
		if m.Role != abi.RoleAssistant {
			continue
		}
		actions := a.actions(&m, results)
		for _, d := range actions {
			counts[d.key]++
		}
		if last == nil {
			last = actions
			if len(last) == 0 {
				break
			}
		}
	}
	return counts, last
}

// actions returns the actions of a message, without duplicates. results holds the tools' results by
// call ID.
func (a *antiLoop) actions(m *abi.Message, results map[string]string) []action {
	var out []action
	there := map[string]bool{}
	add := func(what, key string) {
		if !there[key] {
			there[key] = true
			out = append(out, action{what, key})
		}
	}
	if text := strings.ToLower(strings.Join(strings.Fields(m.Content.String()), " ")); text != "" &&
		(len(m.ToolCalls) == 0 || len(text) >= minText) {
		add("said the same", "text "+text)
	}
	for _, c := range m.ToolCalls {
		if names.Match(a.Except, c.Function.Name) {
			continue
		}
		key, err := callkey.Of(c.Function.Name, c.Function.Arguments)
		if err != nil {
			key = c.Function.Name + " " + c.Function.Arguments // not JSON: compare the arguments as text
		}
		if a.Results {
			key += " " + results[c.ID]
		}
		add("called "+c.Function.Name+" with the same arguments", "call "+key)
	}
	return out
}
