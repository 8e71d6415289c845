// Command call-log is a middleware that logs a run: a line for each answer of the model,
// each tool call and each fault, and a summary at the end.
package main

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "call-log",
		Version:     "1.0.0",
		Description: "Logs answers, tool calls and faults, each in a line.",
		// Log events are excluded, because each line that the module logs would cause another one.
		Events: []abi.EventType{abi.EventRunStarted, abi.EventMessage, abi.EventToolCall, abi.EventToolResult,
			abi.EventCustom, abi.EventFault, abi.EventRunFinished},
	}, newLog())
}

func main() {}

func newLog() *callLog { return &callLog{Level: "info", Preview: 60, Times: true} }

type callLog struct {
	Level   string `json:"level" doc:"the least important lines to log: debug, info, warn or error"`
	Preview int    `json:"preview" doc:"how many characters of texts and arguments to show; 0 shows none"`
	Times   bool   `json:"times" doc:"include durations; without them, the logs of two equal runs are equal"`

	minimum int
}

var levels = []string{"debug", "info", "warn", "error"} // indexed by the levels of the import "log"

// Configure validates the configuration.
func (l *callLog) Configure(*middleware.Context) error {
	if l.minimum = slices.Index(levels, l.Level); l.minimum < 0 {
		return &abi.Error{
			Code:    abi.CodeInvalid,
			Message: middleware.Sprintf("config: level: %q is not one of debug, info, warn, error", l.Level),
		}
	}
	if l.Preview < 0 {
		return &abi.Error{Code: abi.CodeInvalid, Message: middleware.Sprintf("config: preview: %d is below 0", l.Preview)}
	}
	return nil
}

// A tally counts the calls of one tool in a run.
type tally struct {
	Calls  int `json:"calls"`
	Failed int `json:"failed"`
}

var (
	tools = middleware.Local[map[string]tally]("tools")
	times = middleware.Local[map[string]int64]("times") // start times of unfinished operations
)

// AfterTool counts the call. Concurrent calls update the counts one at a time.
func (l *callLog) AfterTool(ctx *middleware.Context, end *middleware.ToolEnd) error {
	return tools.Update(ctx, func(all map[string]tally) (map[string]tally, error) {
		if all == nil {
			all = map[string]tally{}
		}
		t := all[end.Name]
		t.Calls++
		if end.Err != nil || end.Result.IsError {
			t.Failed++
		}
		all[end.Name] = t
		return all, nil
	})
}

// AfterAgent emits the counts as an event for programs.
func (l *callLog) AfterAgent(ctx *middleware.Context, run *middleware.AgentEnd) error {
	all, _, err := tools.Get(ctx)
	if err != nil {
		return err
	}
	return ctx.Emit("summary", struct {
		FinishReason string           `json:"finish_reason"`
		Steps        int              `json:"steps"`
		Messages     int              `json:"messages"`
		Tools        map[string]tally `json:"tools,omitempty"`
		Usage        abi.Usage        `json:"usage"`
	}{run.FinishReason, ctx.Run.Step, run.Messages.Len() - run.NewFrom, all, run.Usage})
}

// Observe logs lines for people. It computes the duration of a call from the times of its
// events, which may arrive in two batches.
func (l *callLog) Observe(ctx *middleware.Context, events []abi.Event) error {
	began, _, err := times.Get(ctx)
	if err != nil {
		return err
	}
	if began == nil {
		began = map[string]int64{}
	}
	for i := range events {
		e := &events[i]
		switch e.Type {
		case abi.EventRunStarted:
			began["run"] = e.TimeMS
		case abi.EventToolCall:
			began["call/"+e.Call.ID] = e.TimeMS
		}
		if level, text := l.line(e, began); text != "" {
			l.log(ctx, level, text)
		}
		if e.Type == abi.EventToolResult {
			delete(began, "call/"+e.Call.ID)
		}
	}
	return times.Set(ctx, began)
}

// log writes a line unless its level is below the configured one.
func (l *callLog) log(ctx *middleware.Context, level int, text string) {
	if level < l.minimum {
		return
	}
	[]func(string, ...any){ctx.Debugf, ctx.Infof, ctx.Warnf, ctx.Errorf}[level]("%s", text)
}
