package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/rerun"
)

func (c *runsCommand) show() *cobra.Command {
	var verbose bool
	cmd := c.command(&cobra.Command{
		Use:   "show RUN",
		Short: "Show the steps of a run",
		Long: `Shows a run step by step: the model's messages, the changes of each module, the
decisions of gates, the results of tools, faults, fuel and time.`,
	}, func(ctx context.Context, id string) error {
		x, err := c.read(ctx, id)
		if err != nil {
			return err
		}
		return c.shown(x, verbose)
	}, func(ctx context.Context, id string) error {
		x, err := c.readAtServer(ctx, id)
		if err != nil {
			return err
		}
		return c.shown(x, verbose)
	})
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show longer texts")
	return cmd
}

// shown prints a run with its history and events.
func (c *runsCommand) shown(x *exported, verbose bool) error {
	if c.output == "json" {
		return cli.PrintJSON(c.env, x)
	}
	s := cli.NewScreen(c.env)
	v := &runView{
		storeFlag: hosting.StoreFlag(c.storeAt) + cli.After(" --server ", c.server),
		color:     s.Color && cli.IsTerminal(c.env.Out),
		maxText:   showShort,
	}
	if verbose {
		v.maxText = showLong
	}
	_, err := fmt.Fprint(c.env.Out, v.text(x, time.Now()))
	return err
}

// A runView formats a run as text.
type runView struct {
	color     bool
	maxText   int    // maximum number of characters of each text
	storeFlag string // the flag for commands in hints
	out       strings.Builder

	steps   map[int][]abi.Event
	calls   map[string]string // tool names by call id
	args    map[string]string // arguments by call id, as the last module left them
	results map[string]string // texts of results by call id, as the last module left them
	// response is the model's message, as the last module left it; nil before the step's model call.
	response  *abi.Message
	model     *abi.Message // the step's message as the model answered it
	unchanged []string     // hooks of the step that changed nothing
	answers   []runlog.Answered
	asked     map[string]bool // interrupts already written, by id
	erased    bool            // an erased call was written
}

// line writes a line in a style, indented depth levels.
func (v *runView) line(depth int, look cli.Style, format string, args ...any) {
	text := strings.Repeat("  ", depth) + cli.Clean(fmt.Sprintf(format, args...))
	if v.color && look != cli.Plain {
		text = "\x1b[" + string(look) + "m" + text + "\x1b[0m"
	}
	v.out.WriteString(strings.TrimRight(text, " ") + "\n")
}

// cut returns text on one line, truncated to v.maxText characters.
func (v *runView) cut(text string) string {
	return cli.OneLine(cli.Short(strings.TrimSpace(text), v.maxText))
}

// text formats a run: its summary, input, steps and end.
func (v *runView) text(x *exported, now time.Time) string {
	r := x.Run
	v.line(0, cli.Plain, "run %s of %s: %s", r.ID, r.Agent, statusText(r, now))
	v.line(
		0,
		cli.Faint,
		"began %s, %s; %s, %d tokens, %s fuel, %s of journal",
		r.Created.Format(time.RFC3339),
		took(x.Events),
		cli.Count(int64(r.Step), "step"),
		r.Usage.TotalTokens,
		cli.Thousands(r.Fuel),
		cli.Count(r.JournalBytes, "byte"),
	)
	for _, p := range r.Modules {
		digest := "native"
		if p.Digest != "" {
			digest = "sha256:" + cli.Short(p.Digest, 13)
		}
		v.line(0, cli.Faint, "module %s (%s) %s", p.Entry, p.Ring, digest)
	}
	v.out.WriteString("\n")
	for _, m := range x.History.Input {
		v.message(0, "", m)
	}
	v.steps, v.calls, v.asked = map[int][]abi.Event{}, map[string]string{}, map[string]bool{}
	v.args, v.results = map[string]string{}, map[string]string{}
	v.answers = x.History.Answered
	for _, e := range x.Events {
		v.steps[e.Step] = append(v.steps[e.Step], e)
		if e.Type == abi.EventToolCall {
			v.calls[e.Call.ID], v.args[e.Call.ID] = e.Call.Name, e.Call.Arguments
		}
	}
	step := -1
	v.erased = false
	for _, p := range x.History.Phases {
		if p.Step != step {
			v.pauses(step, "")
			v.collapsed()
			step = p.Step
			v.step(step)
		}
		for i := range p.Calls {
			if d := &p.Calls[i]; d.What == "tool" {
				v.pauses(step, d.Call) // the pause precedes the call
			}
			v.recordedCall(&p.Calls[i])
		}
		if p.Phase == runlog.PhaseModel {
			v.delivered(step, x.Events)
			v.events(step, abi.EventMessage)
		}
	}
	v.pauses(step, "")
	v.collapsed()
	if v.erased {
		v.out.WriteString("\n")
		v.line(
			0,
			cli.Faint,
			"Modules changed or removed text, so these answers were erased. To keep them, store runs with --keep-originals.",
		)
	}
	v.ending(x)
	return v.out.String()
}

// step writes the heading and the leading events of a step.
func (v *runView) step(n int) {
	events := v.steps[n]
	if n > 0 {
		v.out.WriteString("\n")
		v.line(0, cli.Cyan, "step %d%s", n, cli.After("  ", took(events)))
	}
	v.events(n, abi.EventFault, abi.EventLimit, abi.EventRepair, abi.EventTransfer, abi.EventRunResumed)
}

// took returns the time between the first and the last event, or "" for fewer than two events.
func took(events []abi.Event) string {
	if len(events) < 2 {
		return ""
	}
	d := time.Duration(events[len(events)-1].TimeMS-events[0].TimeMS) * time.Millisecond
	return d.Round(time.Millisecond).String()
}

// events writes the events of a step with the given types.
func (v *runView) events(step int, types ...abi.EventType) {
	for _, e := range v.steps[step] {
		for _, t := range types {
			if e.Type == t {
				v.event(&e)
			}
		}
	}
}

func (v *runView) event(e *abi.Event) {
	switch e.Type {
	case abi.EventMessage:
		v.message(1, "", *e.Message)
		if e.Replaced {
			v.line(2, cli.Amber, "(not what was streamed)")
		}
	case abi.EventFault:
		v.line(1, cli.Red, "✗ %s faulted in %s: %s (%s)", e.Entry, e.Hook, v.cut(e.Cause), e.Action)
	case abi.EventLimit:
		v.line(1, cli.Amber, "• limit %s of %d%s: %s", e.Limit, e.Value, cli.After(" of ", e.Name), e.Action)
	case abi.EventRepair:
		v.line(1, cli.Amber, "• %s", repaired(e))
	case abi.EventTransfer:
		v.line(1, cli.Cyan, "⇒ %s transfers to %s", e.From, e.Agent)
	case abi.EventRunResumed:
		v.line(1, cli.Amber, "• resumed here after its process ended")
	}
}

// pauses writes the answered interrupts of a step that are not written yet: the interrupts of one
// call, or all of them if call is "". ending writes the unanswered interrupts.
func (v *runView) pauses(step int, call string) {
	for _, e := range v.steps[step] {
		if e.Type != abi.EventRunPaused {
			continue
		}
		for _, p := range e.Interrupts {
			at := slices.IndexFunc(v.answers,
				func(a runlog.Answered) bool { return a.TimeMS >= e.TimeMS && a.Answers[p.ID] != nil })
			if at < 0 || v.asked[p.ID] || call != "" && (p.Call == nil || p.Call.ID != call) {
				continue
			}
			v.asked[p.ID] = true // an interrupt can be part of several pauses
			a := v.answers[at]
			waited := time.Duration(a.TimeMS-e.TimeMS) * time.Millisecond
			v.line(1, cli.Amber, "‖ %s asks: %s%s", cmp.Or(p.Entry, p.Agent, "the tool"), v.cut(p.Reason),
				cli.After("  ", callText(p.Call)))
			v.line(2, cli.Plain, "→ %s%s, after %s", v.cut(answerText(a.Answers[p.ID])), cli.After(", by ", a.By),
				waitedText(waited))
		}
	}
}

// answerText formats an answer to an interrupt.
func answerText(answer json.RawMessage) string {
	var a abi.Approval
	var text string
	switch {
	case string(answer) == "true":
		return abi.Approve
	case string(answer) == "false":
		return abi.Reject
	case json.Unmarshal(answer, &text) == nil:
		return text
	case decode(answer, &a) && a.Decision != "":
		out := a.Decision + cli.After(": ", a.Message)
		if a.Arguments != nil {
			out += " to " + *a.Arguments
		}
		return out
	}
	return string(answer)
}

// waitedText formats the waiting time for an answer.
func waitedText(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func (v *runView) message(depth int, mark string, m abi.Message) {
	look := cli.Plain
	switch mark {
	case "+ ":
		look = "32"
	case "- ":
		look = cli.Red
	}
	if text := rerun.ContentText(m.Content); text != "" || len(m.ToolCalls) == 0 {
		v.line(depth, look, "%s%s: %s", mark, m.Role, v.cut(text))
	}
	for _, c := range m.ToolCalls {
		v.line(depth, look, "%s%s calls %s %s", mark, m.Role, c.Function.Name, v.cut(c.Function.Arguments))
	}
}

func (v *runView) recordedCall(d *runlog.RecordedCall) {
	switch {
	case d.Failed != nil && d.Entry != "":
		v.line(1, cli.Amber, "• %s %s failed: %s", d.Entry, d.What, v.cut(d.Failed.Error()))
		return
	case d.Faulted:
		return // the fault event is shown instead
	case d.Erased:
		what := cmp.Or(v.calls[d.Call], d.What)
		if d.Entry != "" {
			what = d.Entry + " " + d.What
		}
		v.line(1, cli.Faint, "• %s: erased", what)
		v.erased = true
		return
	case d.What == "model":
		var res abi.Response
		if decode(d.Answer, &res) {
			v.response, v.model = &res.Message, &res.Message
			if res.Usage != nil {
				v.line(1, cli.Faint, "model: %d tokens", res.Usage.TotalTokens)
			}
		}
		return
	case d.What == "tool":
		v.tool(d)
		return
	case d.What == string(abi.HookGateTool):
		v.gate(d)
		return
	}
	v.changes(d)
}

func (v *runView) tool(d *runlog.RecordedCall) {
	name := cmp.Or(v.calls[d.Call], d.Call)
	var res abi.Result
	switch {
	case !d.Done:
		v.line(1, cli.Red, "✗ %s was called, but its outcome is unknown", name)
	case d.Failed != nil:
		v.line(1, cli.Red, "✗ %s: %s", name, v.cut(d.Failed.Error()))
	case decode(d.Answer, &res) && res.IsError:
		v.line(1, cli.Red, "✗ %s: %s", name, v.cut(rerun.ContentText(res.Content)))
	default:
		v.results[d.Call] = rerun.ContentText(res.Content)
		v.line(1, cli.Plain, "← %s: %s", name, v.cut(v.results[d.Call]))
	}
}

func (v *runView) gate(d *runlog.RecordedCall) {
	var a abi.GateToolAnswer
	if !decode(d.Answer, &a) {
		return
	}
	look := map[string]cli.Style{
		abi.DecideAllow: cli.Faint, abi.DecideDeny: cli.Amber, abi.DecideStop: cli.Red,
	}[a.Decision]
	does := map[string]string{abi.DecideDeny: "denies"}[a.Decision]
	v.line(1, look, "• %s %s%s", d.Entry, cmp.Or(does, a.Decision+"s"), cli.After(": ", v.cut(a.Message)))
}

// ending writes the end of the run, or its pending interrupts.
func (v *runView) ending(x *exported) {
	v.out.WriteString("\n")
	for _, p := range x.Run.Pending {
		v.line(0, cli.Amber, "waits: %s  %s%s", p.ID, v.cut(p.Reason), cli.After("  ", callText(p.Call)))
	}
	if len(x.Run.Pending) > 0 {
		v.line(0, cli.Plain, "resume with: agent-runner runs resume %s%s --answer %s=ANSWER",
			x.Run.ID, v.storeFlag, x.Run.Pending[0].ID)
	}
	if len(x.Events) == 0 {
		return
	}
	last := x.Events[len(x.Events)-1]
	if last.Type != abi.EventRunFinished {
		return
	}
	look := cli.Plain
	if last.Error != nil {
		look = cli.Red
	}
	v.line(0, look, "%s%s%s", last.FinishReason, cli.After(" by ", last.StoppedBy), cli.After(": ", v.cut(last.Reason)))
	if last.Error != nil {
		v.line(0, cli.Red, "%s",
			cli.OneLine(cli.Short(last.Error.Error(), showLong))) // the reason matters most, so show more of it
	}
	if m := last.Message; m != nil && !v.isLastMessage(m) {
		v.message(0, "", *m)
	}
	for _, s := range last.Entries {
		v.line(0, cli.Faint, "%s: %s, %s, %s fuel, %v", s.Entry, cli.Count(s.Calls, "call"), cli.Count(s.Faults, "fault"),
			cli.Thousands(s.Fuel), time.Duration(s.WallUS)*time.Microsecond)
	}
}

// isLastMessage reports whether m has the same content as the last message of the run's events.
func (v *runView) isLastMessage(m *abi.Message) bool {
	var last *abi.Message
	for step := 0; v.steps[step] != nil || step == 0; step++ {
		for _, e := range v.steps[step] {
			if e.Type == abi.EventMessage {
				last = e.Message
			}
		}
	}
	return last != nil && last.Content.String() == m.Content.String()
}

func callText(c *abi.Call) string {
	if c == nil {
		return ""
	}
	return c.Name + " " + cli.Short(c.Arguments, showShort)
}

// decode parses a recorded answer, and reports whether it succeeded.
func decode(b []byte, out any) bool {
	if len(b) == 0 {
		return false
	}
	_, err := abijson.Decode(b, out)
	return err == nil
}
