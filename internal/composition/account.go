package composition

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// An Account is the observable outcome of a run, as lines of text.
type Account struct {
	Events []string // events that the caller received, except steps, logs, chunks and pauses
	Asked  []string // requests to the model: tools and messages
	Ran    []string // tools that ran, with their arguments
	Kids   []string // requests to the model of the agent "kid", and tools of that agent that ran
	Paused []string // interrupts of the run, sorted
	State  string   // the messages at the end of the run
	// Open reports whether another tool call was waiting when a call ended the run, and both came
	// from the same message of the model. The contract leaves open whether a waiting call has a
	// result.
	Open bool
}

// The instruction and the user message of all runs, and the error messages of the model and of
// tools.
const (
	instruction = "be good"
	question    = "hi"
	modelFails  = "fail:model"
	toolFails   = "fail:tool"
)

// Placeholders for texts of the host. The contract leaves the wording of those texts open.
const (
	notRun       = "not-run"
	unknownTool  = "unknown-tool"
	badArguments = "bad-arguments"
	tooManySteps = "too-many-steps"
	tooManyCalls = "too-many-calls" // ends the run
	beyondLimit  = "beyond-limit"   // rejects a tool call
	lastCall     = "last-call"      // tells the model to answer without further calls
	childFailed  = "kid-failed"
	unknownAgent = "unknown-agent"
	oneTransfer  = "one-transfer"
)

// reply returns the model's reply in a step, whose number starts at 1.
func (c *Composition) reply(step int) Reply {
	return c.Replies[min(step, len(c.Replies))-1]
}

// said returns the text of reply r to a request with the given number of messages. The text ends
// with the number, unless it is empty.
func said(r Reply, messages int) string {
	if r.Text == "" {
		return ""
	}
	return r.Text + strconv.Itoa(messages)
}

// ownCall returns the placeholder for the ID of a call that hook h of an entry makes for itself.
// about is the ID of the tool call that the hook is called for, or "" for other hooks.
func ownCall(entry string, h abi.Hook, about string) string {
	return "own." + entry + "." + string(h) + "." + about
}

func callID(step, i int) string { return fmt.Sprintf("c%d.%d", step, i+1) }

// hostTexts maps patterns of the host's texts to placeholders.
var hostTexts = []struct {
	text *regexp.Regexp
	is   string
}{
	{regexp.MustCompile(`The conversation continues with (\w+)\.`), "goes to $1"},
	{regexp.MustCompile(`The conversation can be transferred to one agent only[^|+]*counts\.`), oneTransfer},
	{regexp.MustCompile(`There is no agent "[^|]*?\.( Did you mean .*?\?)? Available agents: \w+\.`), unknownAgent},
	{regexp.MustCompile(`Agent kid (?:did not produce an answer|ended without an answer)[^|+]*[^|+ ]`), childFailed},
	{regexp.MustCompile(`\b[mkp]\d: (?:\w+ failed: )?(?:invalid: )?((?:fail|error):)`), "$1"},
	{regexp.MustCompile(`([mkp]\d): (\w+): (?:unreachable executed \(panic: )?the puppet breaks\)?`), "fault:$1.$2"},
	{regexp.MustCompile(`The policy ([mkp]\d) could not decide\.`), "fault:$1"},
	{regexp.MustCompile(`tool "of_([mkp]\d)" failed`), "fault:$1"},
	{regexp.MustCompile(`the run used all its \d+ steps[^:|]*in its events`), tooManySteps},
	{
		regexp.MustCompile(`the run used all its \d+ (?:model calls|tool calls|calls of plain)[^:|]*in its events`),
		tooManyCalls,
	},
	{
		regexp.MustCompile(
			`The run has used up its limit of \d+ [\w ]+\. Answer now, with what you have: no more tools can be called\.`,
		),
		lastCall,
	},
	{
		regexp.MustCompile(
			`(?:tool: the|The) call of \S+ was not run: the run has used up its limit of \d+ [\w ]+(?:\. Go on without it\.)?`,
		),
		beyondLimit,
	},
	{
		regexp.MustCompile(`The call of \S+ (was not run:|was made;|was cut off)[^|+]*\.`),
		notRun,
	},
	{
		regexp.MustCompile(
			`There is no tool "[^|]*?\.( Did you mean .*?\?)?( There are no tools at all\.)?( Available tools: [\w, ]+\.)?`,
		),
		unknownTool,
	},
	{regexp.MustCompile(`The arguments of \S+ are not valid[^|]*?with one JSON object\.`), badArguments},
}

// plain replaces the host's texts and IDs in a line with placeholders.
func plain(line string) string {
	for _, t := range hostTexts {
		line = t.text.ReplaceAllString(line, t.is)
	}
	return line
}

// account returns the account of an observed run.
func (s *seen) account() *Account {
	a := &Account{Asked: s.asked, Ran: s.ran, State: puppet.Messages(s.state)}
	var owns []string
	for i := range s.events {
		e := &s.events[i]
		if e.Type == abi.EventChild && e.Event.Type == abi.EventToolCall && e.Event.Call.By != nil {
			c := e.Event.Call
			owns = append(owns, c.ID, ownCall(c.By.Entry, c.By.Hook, c.By.Call))
		}
		if e.Type == abi.EventToolCall && e.Call.By != nil {
			owns = append(owns, e.Call.ID, ownCall(e.Call.By.Entry, e.Call.By.Hook, e.Call.By.Call))
		}
		if line := lineOf(e); line != "" {
			a.Events = append(a.Events, line)
		}
	}
	for _, q := range s.questions {
		a.Paused = append(a.Paused, asksOf(q.Entry, q.Hook, q.Call))
	}
	ids := strings.NewReplacer(owns...)
	for _, list := range [][]string{a.Events, a.Asked, a.Ran, a.Paused} {
		for i := range list {
			list[i] = ids.Replace(plain(list[i]))
		}
	}
	if s.child != nil {
		for _, line := range slices.Concat(s.child.asked, s.child.ran) {
			a.Kids = append(a.Kids, ids.Replace(plain(line)))
		}
	}
	a.State = plain(a.State)
	a.sort()
	return a
}

// asksOf formats an interrupt by a hook of an entry. For a gate, it includes the tool call c.
func asksOf(entry string, h abi.Hook, c *abi.Call) string {
	s := entry + "." + string(h)
	if h == contract.HookGateTool {
		s += " " + shownCall(c)
	}
	return s
}

// sort orders the lines about concurrent calls independently of the calls' timing.
func (a *Account) sort() {
	sortChildren(a.Events)
	a.Events = byCall(a.Events)
	slices.Sort(a.Kids)
	slices.Sort(a.Paused)
	slices.SortStableFunc(a.Ran, func(a, b string) int { return strings.Compare(firstWord(a), firstWord(b)) })
}

func firstWord(s string) string {
	s, _, _ = strings.Cut(s, " ")
	return s
}

// asked formats a request to the model.
func asked(tools []string, messages []abi.Message) string {
	return strings.Join(tools, ",") + ": " + puppet.Messages(messages)
}

func shownCall(c *abi.Call) string { return c.ID + " " + c.Name + c.Arguments }

// lineOf formats an event as a line. It returns "" for an event that accounts omit.
func lineOf(e *abi.Event) string {
	switch e.Type {
	case abi.EventMessage:
		return "message " + puppet.Message(e.Message) + " of " + e.Message.Origin
	case abi.EventToolCall:
		return "tool_call " + shownCall(e.Call)
	case abi.EventToolResult:
		text := e.Result.Content.String()
		if e.Result.IsError {
			text = "is_error " + text
		}
		return "tool_result " + shownCall(e.Call) + " " + e.Source + " " + text
	case abi.EventCustom:
		text, _ := strconv.Unquote(string(e.Data))
		return fmt.Sprintf("custom %s.%s %s %s", e.Entry, e.Hook, e.Name, text)
	case abi.EventFault:
		return fmt.Sprintf("fault %s.%s %s", e.Entry, e.Hook, e.Action)
	case abi.EventChild:
		if line := lineOf(e.Event); line != "" {
			return "child " + e.Call.ID + " " + line
		}
		return ""
	case abi.EventRepair:
		return "repair " + e.Action
	case abi.EventTransfer:
		return "transfer " + e.From + " to " + e.Agent
	case abi.EventLimit:
		return fmt.Sprintf("limit %s %s %d %s", e.Limit, e.Name, e.Value, e.Action)
	case abi.EventRunFinished:
		by, failed := "", ""
		if e.StoppedBy != "" {
			by = e.StoppedBy + "." + string(e.Hook) + " " + e.Reason
		}
		if e.Error != nil {
			failed = e.Error.Message
		}
		return fmt.Sprintf("run_finished %s by %s error %s: %s", e.FinishReason, by, failed, puppet.Message(e.Message))
	default:
		return ""
	}
}

// ofCall matches a line about a tool call, and captures the call's id.
var ofCall = regexp.MustCompile(
	`^(?:child|tool_(?:call|result)|custom \w+\.(?:before_tool|wrap_tool_call|gate_tool|call_tool|after_tool|tool_messages) \w+) (\S+) `,
)

// ofRound matches lines about a tool call that do not contain the call's id.
var ofRound = regexp.MustCompile(
	`^fault \w+\.(?:before_tool|wrap_tool_call|gate_tool|call_tool|after_tool|tool_messages|on_chunk) |^limit tool_calls \w* ?\d+ refused`,
)

// ofLive matches lines about faults of the hooks that a resumed run calls again. A hook that faults
// again reports another fault.
var ofLive = regexp.MustCompile(`^(?:child \S+ )?fault \w+\.(?:wrap_model|wrap_tool_call|on_chunk) `)

// withoutLive removes the events that ofLive matches.
func (a *Account) withoutLive() {
	a.Events = slices.DeleteFunc(a.Events, ofLive.MatchString)
	a.sort() // sort joins rounds that the removed lines separated
}

// ofFault matches lines about faults. If a process ends after a fault, the next process calls the
// hook again and reports another fault.
var ofFault = regexp.MustCompile(`^(?:child \S+ )?fault `)

// withoutFaults removes the lines about faults, including those of child runs.
func (a *Account) withoutFaults() {
	a.Events = slices.DeleteFunc(a.Events, ofFault.MatchString)
	a.sort()
}

// sortChildren sorts the lines of each child run like those of a run. Each child's lines keep their
// set of positions in lines.
func sortChildren(lines []string) {
	at := map[string][]int{}
	for i, line := range lines {
		if rest, ok := strings.CutPrefix(line, "child "); ok {
			at[firstWord(rest)] = append(at[firstWord(rest)], i)
		}
	}
	for call, places := range at {
		prefix := "child " + call + " "
		inner := make([]string, len(places))
		for i, place := range places {
			inner[i] = strings.TrimPrefix(lines[place], prefix)
		}
		for i, line := range byCall(inner) {
			lines[places[i]] = prefix + line
		}
	}
}

// byCall sorts adjacent lines about tool calls by the call's ID, since the calls run concurrently.
// Lines about faults and limits do not contain the ID, and come last.
func byCall(lines []string) []string {
	key := func(line string) string {
		if m := ofCall.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		if ofRound.MatchString(line) {
			return "~" + line
		}
		return ""
	}
	var out []string
	for len(lines) > 0 {
		n := 0
		for n < len(lines) && key(lines[n]) != "" {
			n++
		}
		round := slices.Clone(lines[:n])
		slices.SortStableFunc(round, func(a, b string) int { return strings.Compare(key(a), key(b)) })
		out = append(out, round...)
		if lines = lines[n:]; len(lines) > 0 {
			out, lines = append(out, lines[0]), lines[1:]
		}
	}
	return out
}
