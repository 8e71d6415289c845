package run

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/rerun"
)

// The maximum number of characters shown of a tool call, a result, a log line or another detail.
// The answer is shown in full.
const (
	showShort = 200
	showLong  = 4000 // with --verbose
)

// A textRenderer shows a run as text: the streamed answer on standard output, and tool
// calls and module activity on standard error.
type textRenderer struct {
	screen  *cli.Screen
	verbose bool

	began, steps, tools int64
	streamed            bool   // chunks of the current message were shown
	shown               string // the text of the last complete message
	reasoning           strings.Builder
	arguments           map[string]string // arguments of tool calls as the model wrote them, by call id
}

// event shows an event. It fails if the answer cannot be written.
func (r *textRenderer) event(e abi.Event) error {
	if e.Chunk == nil || e.Chunk.Kind != abi.ChunkReasoning {
		r.endReasoning()
	}
	if r.arguments == nil {
		r.began, r.arguments = e.TimeMS, map[string]string{} // the run was resumed
	}
	switch e.Type {
	case abi.EventRunResumed:
		r.screen.EndAnswer()
		r.streamed = false
		r.screen.Note(cli.Amber, "• resuming the interrupted run")
	case abi.EventRunStarted:
		*r = textRenderer{screen: r.screen, verbose: r.verbose, began: e.TimeMS, arguments: map[string]string{}}
		r.detail("run %s of %s%s", e.Run, e.Agent, cli.After(" with ", e.Model))
	case abi.EventStepStarted:
		r.steps = max(r.steps+1, int64(e.Step)) // a resumed run also counts earlier steps
		r.detail("step %d", e.Step)
	case abi.EventChunk:
		return r.chunk(e.Chunk)
	case abi.EventMessage:
		return r.message(&e)
	case abi.EventToolCall:
		r.tools++
		r.arguments[e.Call.ID] = e.Call.Arguments
		r.screen.Note(cli.Cyan, "→ %s %s", e.Call.Name, r.cut(e.Call.Arguments))
	case abi.EventToolResult:
		if _, seen := r.arguments[e.Call.ID]; !seen {
			r.tools++ // the call was made before the run paused
		}
		r.result(&e)
	case abi.EventDecision:
		d := e.Decision
		r.detail(
			"  %s: %s %s%s%s",
			e.Entry,
			d.Decision,
			d.Tool,
			cli.After(", by ", d.Approver),
			cli.After(": ", r.cut(d.Reason)),
		)
	case abi.EventCustom:
		r.screen.Note(cli.Amber, "• %s: %s%s", e.Entry, e.Name, cli.After(" ", r.cut(string(e.Data))))
	case abi.EventLog:
		r.log(&e)
	case abi.EventFault:
		r.fault(&e)
	case abi.EventModelAttempt:
		r.attempt(&e)
	case abi.EventRepair:
		r.screen.Note(cli.Amber, "• %s", repaired(&e))
	case abi.EventTransfer:
		r.screen.Note(cli.Cyan, "⇒ %s transfers to %s", e.From, e.Agent)
	case abi.EventChild:
		r.child(e.Event)
	case abi.EventLimit:
		r.screen.Note(cli.Amber, "• limit: %s %d%s (%s)", e.Limit, e.Value, cli.After(" of ", e.Name), limitActions[e.Action])
	case abi.EventRunPaused:
		r.paused(&e)
	case abi.EventRunFinished:
		return r.finished(&e)
	}
	return nil
}

// detail writes a note if --verbose is set.
func (r *textRenderer) detail(format string, args ...any) {
	if r.verbose {
		r.screen.Note(cli.Faint, format, args...)
	}
}

func (r *textRenderer) chunk(c *abi.Chunk) error {
	if c.CallID != "" { // a tool result, which is shown when complete
		r.detail("  %s: %s", c.CallID, r.cut(c.Text))
		return nil
	}
	switch c.Kind {
	case abi.ChunkText:
		r.streamed = r.streamed || c.Text != ""
		return r.screen.Answer(c.Text)
	case abi.ChunkReasoning:
		r.reasoning.WriteString(c.Text)
	case abi.ChunkPart:
		text := rerun.PartText(c.Part)
		r.streamed = r.streamed || text != ""
		return r.screen.Answer(text)
	}
	return nil
}

// endReasoning shows the model's reasoning so far if --verbose is set, and then discards it.
func (r *textRenderer) endReasoning() {
	if text := r.cut(r.reasoning.String()); text != "" {
		r.detail("  %s", text)
	}
	r.reasoning.Reset()
}

// cutOff writes a note if a message was cut off by a limit or a filter of the model.
func (r *textRenderer) cutOff(e *abi.Event) {
	switch e.FinishReason {
	case abi.FinishLength:
		r.screen.Note(cli.Amber, "• the answer was cut off at the model's token limit; raise max_tokens")
	case abi.FinishFilter:
		r.screen.Note(cli.Amber, "• the answer was cut off by the model's content filter")
	}
}

// message ends the output of a streamed message. It shows the whole message if the message was
// not streamed or was replaced.
func (r *textRenderer) message(e *abi.Event) error {
	defer r.cutOff(e)
	text := rerun.ContentText(e.Message.Content)
	streamed := r.streamed
	r.streamed, r.shown = false, text
	switch {
	case streamed && !e.Replaced:
		r.screen.EndAnswer()
		return nil
	case streamed:
		r.screen.Note(cli.Amber, "• the message changed after it was streamed; it is now:")
	case text == "":
		return nil
	}
	if err := r.screen.Answer(text); err != nil {
		return err
	}
	r.screen.EndAnswer()
	return nil
}

func (r *textRenderer) result(e *abi.Event) {
	if before, ok := r.arguments[e.Call.ID]; ok &&
		cmp.Or(strings.TrimSpace(before), "{}") != cmp.Or(strings.TrimSpace(e.Call.Arguments), "{}") {
		r.screen.Note(cli.Amber, "• %s was called with other arguments: %s", e.Call.Name, r.cut(e.Call.Arguments))
	}
	text := r.cut(rerun.ContentText(e.Result.Content))
	who := ""
	if e.Source != "tool" && e.Source != "host" && e.Source != "" {
		who = " by " + e.Source
	}
	switch {
	case e.Result.IsError && who != "":
		r.screen.Note(cli.Amber, "✗ %s denied%s: %s", e.Call.Name, who, text)
	case e.Result.IsError:
		r.screen.Note(cli.Red, "✗ %s: %s", e.Call.Name, text)
	case who != "":
		r.screen.Note(cli.Amber, "← %s answered%s: %s", e.Call.Name, who, text)
	default:
		r.screen.Note(cli.Faint, "← %s: %s", e.Call.Name, text)
	}
}

func (r *textRenderer) log(e *abi.Event) {
	look, level := cli.Faint, e.Level
	switch {
	case level == "error":
		look = cli.Red
	case level == "warn":
		look = cli.Amber
	case level == "info":
		level = ""
	case !r.verbose:
		return
	}
	r.screen.Note(look, "• %s%s: %s", cmp.Or(e.Entry, "host"), cli.After(" ", level), r.cut(e.Text))
}

// actions describes the consequences of a fault, by the action of its event.
var actions = map[string]string{
	"run_ended":       "the run ends",
	"skipped":         "the run continues without it",
	"denied":          "the call is denied",
	"error_result":    "the call returns an error",
	"default_message": "the result is recorded unchanged",
	"passed_over":     "the run's outcome is unchanged",
}

// attempt shows a failed model call that is retried.
func (r *textRenderer) attempt(e *abi.Event) {
	what := "trying " + cmp.Or(e.Next, "the next model")
	if e.Next == e.Model {
		what = "trying again"
	}
	when := ""
	if wait := time.Duration(e.DelayMS) * time.Millisecond; wait > 0 {
		when = fmt.Sprintf(" in %v", wait.Round(100*time.Millisecond))
	}
	end := ";"
	if strings.HasSuffix(e.Error.Message, "?") {
		end = ""
	}
	r.screen.Note(cli.Amber, "agent-runner: %s%s %s%s", e.Error.Message, end, what, when)
}

// child shows an event of a sub-agent's run.
func (r *textRenderer) child(e *abi.Event) {
	switch e.Type {
	case abi.EventRunStarted:
		r.screen.Note(cli.Cyan, "  ┌ %s", e.Agent)
	case abi.EventToolCall:
		r.screen.Note(cli.Cyan, "  │ → %s %s", e.Call.Name, r.cut(e.Call.Arguments))
	case abi.EventToolResult:
		r.screen.Note(cli.Faint, "  │ ← %s: %s", e.Call.Name, r.cut(rerun.ContentText(e.Result.Content)))
	case abi.EventFault:
		r.screen.Note(cli.Red, "  │ ! %s faulted in %s: %s", e.Entry, e.Hook, r.cut(e.Cause))
	case abi.EventRunFinished:
		r.screen.Note(cli.Faint, "  └ %s", strings.TrimSuffix(strings.TrimSuffix(endings[e.FinishReason], " in"), " after"))
	}
}

// limitActions describes the consequences of reaching a limit, by the action of its event.
var limitActions = map[string]string{
	"run_ended": "the run ends",
	"refused":   "the call is rejected",
	"last_call": "the last model call has no tools",
}

// repairActions describes repairs of the conversation, by the action of their event.
var repairActions = map[string]string{
	contract.RepairAnswered: "a call had no result",
	contract.RepairMoved:    "moved a late result to its call",
	contract.RepairRemoved:  "removed a result without a call",
	contract.RepairKept:     "kept a result without a call as text",
}

// repaired describes a repair event.
func repaired(e *abi.Event) string {
	if e.Call == nil {
		return fmt.Sprintf("repaired the conversation: %d further repairs", e.Value)
	}
	return fmt.Sprintf(
		"repaired the conversation: %s (%s%s)",
		repairActions[e.Action],
		e.Call.ID,
		cli.After(" of ", e.Call.Name),
	)
}

func (r *textRenderer) fault(e *abi.Event) {
	action, ok := actions[e.Action]
	if !ok {
		action = e.Action
	}
	r.screen.Note(cli.Red, "! %s faulted in %s: %s (%s)", e.Entry, e.Hook, r.cut(e.Cause), action)
	if r.verbose {
		for _, line := range e.Stderr {
			// Source excerpts have a marker below a column, so keep the spaces.
			r.screen.Note(cli.Faint, "    | %s", cli.Short(strings.ReplaceAll(line, "\n", " "), showLong))
		}
	}
}

func (r *textRenderer) finished(e *abi.Event) error {
	r.screen.EndAnswer()
	if e.Message != nil {
		if text := rerun.ContentText(e.Message.Content); text != r.shown {
			if r.shown != "" && e.FinishReason == abi.RunStop {
				r.screen.Note(cli.Amber, "• the answer changed at the end; it is now:")
			}
			if err := r.screen.Answer(text); err != nil {
				return err
			}
			r.screen.EndAnswer()
		}
	}
	if len(e.Entries) == 0 && r.tools == 0 && !r.verbose {
		return nil
	}
	r.screen.Note(cli.Plain, "")
	r.entries(e.Entries)
	r.steps = max(r.steps, int64(e.Step)) // the run may have resumed in the middle of a step
	usage := ""
	if u := e.Usage; u != nil && u.TotalTokens > 0 {
		usage = fmt.Sprintf(", %d tokens", u.TotalTokens)
	}
	took := time.Duration(e.TimeMS-r.began) * time.Millisecond
	r.screen.Note(cli.Faint, "%s %s, %s%s, %v", endings[e.FinishReason], cli.Count(r.steps, "step"),
		cli.Count(r.tools, "tool call"), usage, took)
	return nil
}

// paused shows the pending interrupts of the run.
func (r *textRenderer) paused(e *abi.Event) {
	for _, p := range e.Interrupts {
		r.screen.Note(cli.Amber, "? %s%s: %s%s", cmp.Or(p.Entry, "a tool"), cli.After(" in ", string(p.Hook)),
			r.cut(p.Reason), cli.After(" ", r.cut(string(p.Payload))))
		if p.Call != nil {
			r.screen.Note(cli.Amber, "  before %s %s", p.Call.Name, r.cut(p.Call.Arguments))
		}
	}
}

// endings describes how a run ended, by finish reason.
var endings = map[string]string{
	abi.RunStop:           "answered in",
	abi.RunReturnDirectly: "answered by a tool in",
	abi.RunStopped:        "stopped after",
	abi.RunCanceled:       "canceled after",
	abi.RunTimeout:        "timed out after",
	abi.RunMaxSteps:       "stopped after",
	abi.RunLimit:          "ended at a limit after",
	abi.RunError:          "failed after",
}

// entries shows the calls and the time of each module.
func (r *textRenderer) entries(entries []abi.EntryStats) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range entries {
		name := s.Entry
		if s.Agent != "" {
			name = s.Agent + "/" + name
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f ms", cli.Clean(name), hooks(s.Hooks), float64(s.WallUS)/1000)
		if s.Faults > 0 {
			fmt.Fprintf(w, "\t%s", cli.Count(s.Faults, "fault"))
		}
		if r.verbose {
			fmt.Fprintf(w, "\t%d bytes in, %d out\t%d fuel\t%s\t%s",
				s.BytesIn, s.BytesOut, s.Fuel, cli.Count(s.Instances, "instance"), cli.Short(s.Digest, 13))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	for line := range strings.Lines(b.String()) {
		r.screen.Note(cli.Faint, "%s", strings.TrimRight(line, " \n"))
	}
}

func hooks(calls map[abi.Hook]int64) string {
	if len(calls) == 0 {
		return "not called"
	}
	var out []string
	for _, h := range contract.Hooks() { // in the order in which a run calls them
		if n := calls[h]; n > 0 {
			out = append(out, fmt.Sprintf("%s %d", h, n))
		}
	}
	return strings.Join(out, ", ")
}

// cut returns s on one line, truncated to showShort characters, or showLong with --verbose.
func (r *textRenderer) cut(s string) string {
	limit := showShort
	if r.verbose {
		limit = showLong
	}
	return cli.Short(strings.Join(strings.Fields(s), " "), limit)
}
