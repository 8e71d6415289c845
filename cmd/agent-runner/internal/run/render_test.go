package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain, Ünïcode 日本語\t\n":  "plain, Ünïcode 日本語\t\n",
		"\x1b[2J\x1b]0;title\x07": `\x1b[2J\x1b]0;title\x07`,
		"a\rb\b\x7f\x00":          `a\x0db\x08\x7f\x00`,
		"line\r\nline":            "line\nline",
		"c1 \u009b31m":            `c1 \x9b31m`,
		"abc\u202edef\u2066":      `abc\u202edef\u2066`,
		"bad \xff utf-8":          "bad \ufffd utf-8",
		"👩\u200d👩\u200d👧":         "👩\u200d👩\u200d👧",
	} {
		require.Equal(t, want, cli.Clean(text))
	}
}

// show renders events as on a terminal. Lines of stdout start with a bar.
func show(t *testing.T, verbose bool, events ...abi.Event) string {
	t.Helper()
	var b bytes.Buffer
	s := &cli.Screen{Out: barWriter{&b}, Err: &b}
	r := &textRenderer{screen: s, verbose: verbose}
	require.NoError(t, r.event(abi.Event{Type: abi.EventRunStarted, Agent: "agent", Run: "r"}))
	for _, e := range events {
		require.NoError(t, r.event(e))
	}
	return b.String()
}

type barWriter struct{ b *bytes.Buffer }

func (w barWriter) Write(p []byte) (int, error) {
	text := strings.TrimSuffix(string(p), "\n")
	if text != "" {
		w.b.WriteString("|" + text)
	}
	w.b.WriteString(string(p)[len(text):])
	return len(p), nil
}

func textChunk(text string) abi.Event {
	return abi.Event{Type: abi.EventChunk, Chunk: &abi.Chunk{Kind: abi.ChunkText, Text: text}}
}

func message(text string, replaced bool) abi.Event {
	m := abi.Assistant(text)
	return abi.Event{Type: abi.EventMessage, Message: &m, Replaced: replaced}
}

func finished(text string) abi.Event {
	m := abi.Assistant(text)
	return abi.Event{Type: abi.EventRunFinished, FinishReason: abi.RunStop, Message: &m}
}

// TestWhatIsShown checks the text that a terminal shows for a run's events, with and without
// --verbose.
func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	call := &abi.Call{ID: "c", Name: "calc", Arguments: `{"n": 1}`}
	other := &abi.Call{ID: "c", Name: "calc", Arguments: `{"n": 2}`}
	image := abi.Message{
		Role:    abi.RoleAssistant,
		Content: abi.Parts(abi.Part{Type: abi.PartText, Text: "see "}, abi.Part{Type: abi.PartImage}),
	}
	result := func(c *abi.Call, source string, r *abi.Result) abi.Event {
		return abi.Event{Type: abi.EventToolResult, Call: c, Result: r, Source: source}
	}
	asked := abi.Event{Type: abi.EventToolCall, Call: call}
	for name, c := range map[string]struct {
		verbose bool
		events  []abi.Event
		want    string
	}{
		"streamed": {
			events: []abi.Event{textChunk("Hel"), textChunk("lo"), message("Hello", false), finished("Hello")},
			want:   "|Hel|lo\n",
		},
		"streamed, with its end": {
			events: []abi.Event{textChunk("Hello\n"), message("Hello\n", false), finished("Hello\n")}, want: "|Hello\n",
		},
		"not streamed":            {events: []abi.Event{message("Hello", false), finished("Hello")}, want: "|Hello\n"},
		"replaced":                {events: []abi.Event{textChunk("Hello"), message("Bye", true), finished("Bye")}, want: "|Hello\n• the message changed after it was streamed; it is now:\n|Bye\n"},
		"changed at the end":      {events: []abi.Event{message("Hello", false), finished("Bye")}, want: "|Hello\n• the answer changed at the end; it is now:\n|Bye\n"},
		"an answer of no message": {events: []abi.Event{finished("Hello")}, want: "|Hello\n"},
		"parts":                   {events: []abi.Event{{Type: abi.EventMessage, Message: &image}, {Type: abi.EventRunFinished, FinishReason: abi.RunStop, Message: &image}}, want: "|see [image]\n"},
		"a call":                  {events: []abi.Event{asked, result(call, "tool", abi.TextResult("1"))}, want: "→ calc {\"n\": 1}\n← calc: 1\n"},
		"a call that failed":      {events: []abi.Event{asked, result(call, "tool", abi.ErrorResult("disk full"))}, want: "→ calc {\"n\": 1}\n✗ calc: disk full\n"},
		"a call that was refused": {events: []abi.Event{asked, result(call, "policy", abi.ErrorResult("no"))}, want: "→ calc {\"n\": 1}\n✗ calc denied by policy: no\n"},
		"a call that a module answered": {events: []abi.Event{asked, result(call, "cache", abi.TextResult("1"))},
			want: "→ calc {\"n\": 1}\n← calc answered by cache: 1\n"},
		"other arguments": {events: []abi.Event{asked, result(other, "tool", abi.TextResult("2"))},
			want: "→ calc {\"n\": 1}\n• calc was called with other arguments: {\"n\": 2}\n← calc: 2\n"},
		"a result of many lines": {events: []abi.Event{result(call, "tool", abi.TextResult("a\n  b\n"+
			strings.Repeat("x", 300)))},
			want: "← calc: a b " + strings.Repeat("x", 195) + "…\n"},
		"text, then a call": {
			events: []abi.Event{textChunk("Let me see."), message("Let me see.", false), asked},
			want:   "|Let me see.\n→ calc {\"n\": 1}\n",
		},
		"logs": {events: []abi.Event{{Type: abi.EventLog, Entry: "m", Level: "info", Text: "quiet"}, {Type: abi.EventLog, Entry: "m", Level: "warn", Text: "loud"}},
			want: "• m: quiet\n• m warn: loud\n"},
		"logs for debugging": {events: []abi.Event{{Type: abi.EventLog, Entry: "m", Level: "debug", Text: "detail"}}},
		"logs, verbose": {verbose: true, events: []abi.Event{{Type: abi.EventLog, Entry: "m", Level: "debug", Text: "detail"}},
			want: "run r of agent\n• m debug: detail\n"},
		"custom": {events: []abi.Event{{Type: abi.EventCustom, Entry: "m", Name: "masked", Data: []byte(`{"n":1}`)}}, want: "• m: masked {\"n\":1}\n"},
		"reasoning": {
			verbose: true,
			events: []abi.Event{{Type: abi.EventChunk, Chunk: &abi.Chunk{Kind: abi.ChunkReasoning, Text: "so "}},
				{Type: abi.EventChunk, Chunk: &abi.Chunk{Kind: abi.ChunkReasoning, Text: "then"}}, textChunk("Hi")},
			want: "run r of agent\n  so then\n|Hi",
		},
		"a fault": {verbose: true, events: []abi.Event{{Type: abi.EventFault, Entry: "m", Hook: contract.HookGateTool, Cause: "it trapped", Action: "denied", Stderr: []string{"panic: no"}}},
			want: "run r of agent\n! m faulted in gate_tool: it trapped (the call is denied)\n    | panic: no\n"},
		"modules": {events: []abi.Event{{Type: abi.EventRunFinished, FinishReason: abi.RunStop, Usage: &abi.Usage{TotalTokens: 7}, Entries: []abi.EntryStats{
			{Entry: "redact", Hooks: map[abi.Hook]int64{contract.HookOnChunk: 2, contract.HookBeforeModel: 1}, WallUS: 1234, Faults: 1}, {Entry: "idle"}}}},
			want: "\nredact  before_model 1, on_chunk 2  1.2 ms  1 fault\nidle    not called                  0.0 ms\nanswered in 0 steps, 0 tool calls, 7 tokens, 0s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, show(t, c.verbose, c.events...))
		})
	}
}

func TestColor(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	s := &cli.Screen{Out: &out, Err: &errs, Color: true}
	s.Note(cli.Red, "fault \x1b[2J")
	require.NoError(t, s.Answer("answer"))
	require.Equal(t, "\x1b[31mfault \\x1b[2J\x1b[0m\n", errs.String())
	require.Equal(t, "answer", out.String(), "never in the answer")

	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	require.False(t, cli.NewScreen(&cli.Env{Out: &out, Err: file, Getenv: func(string) string { return "" }}).Color,
		"only on a terminal")
}

// TestBrokenPipe checks that rendering an event fails if the output cannot be written.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	r := &textRenderer{screen: &cli.Screen{Out: brokenPipe{}, Err: &bytes.Buffer{}}}
	require.NoError(t, r.event(abi.Event{Type: abi.EventRunStarted}))
	require.ErrorIs(t, r.event(textChunk("hi")), errPipe)
	require.ErrorIs(t, (&jsonRenderer{brokenPipe{}}).event(textChunk("hi")), errPipe)
}

var errPipe = errors.New("broken pipe")

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestAnswerThatWasCutOff(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		abi.FinishLength: "|The first half\n• the answer was cut off at the model's token limit; raise max_tokens\n",
		abi.FinishFilter: "|The first half\n• the answer was cut off by the model's content filter\n",
		"":               "|The first half\n",
	} {
		e := message("The first half", false)
		e.FinishReason = reason
		require.Equal(t, want, show(t, false, textChunk("The first half"), e))
	}
}

// TestResumedRunSummary checks that the summary of a resumed run counts all of its steps and
// the calls from before the pause.
func TestResumedRunSummary(t *testing.T) {
	t.Parallel()
	var out, log bytes.Buffer
	show := &textRenderer{
		screen: cli.NewScreen(&cli.Env{Out: &out, Err: &log, Getenv: func(string) string { return "" }}),
	}
	call := &abi.Call{ID: "c1", Name: "pay", Arguments: "{}"}
	for _, e := range []abi.Event{
		{Type: abi.EventToolResult, Call: call, Result: &abi.Result{Content: abi.Text("paid")}, Source: "tool"},
		{Type: abi.EventStepStarted, Step: 3},
		{Type: abi.EventToolCall, Call: &abi.Call{ID: "c2", Name: "tip", Arguments: "{}"}},
		{Type: abi.EventToolResult, Call: &abi.Call{ID: "c2", Name: "tip", Arguments: "{}"}, Result: &abi.Result{Content: abi.Text("tipped")}, Source: "tool"},
		{Type: abi.EventStepStarted, Step: 4},
		{Type: abi.EventRunFinished, FinishReason: abi.RunStop},
	} {
		require.NoError(t, show.event(e))
	}
	require.Contains(t, log.String(), "answered in 4 steps, 2 tool calls, ")

	// A run that was interrupted in the middle of a step does not repeat its start.
	log.Reset()
	show = &textRenderer{screen: show.screen, verbose: true}
	require.NoError(t, show.event(abi.Event{Type: abi.EventRunResumed, Step: 2}))
	require.NoError(t, show.event(abi.Event{Type: abi.EventRunFinished, Step: 2, FinishReason: abi.RunStop}))
	require.Contains(t, log.String(), "answered in 2 steps, ")
}

// TestTryingAgain checks the notes about retried model calls.
func TestTryingAgain(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"it is busy":     "agent-runner: it is busy; trying again in 400ms\n",
		"is it running?": "agent-runner: is it running? trying again in 400ms\n",
	} {
		e := abi.Event{
			Type:    abi.EventModelAttempt,
			Error:   &abi.Error{Code: abi.CodeModel, Message: said},
			Model:   "m",
			Next:    "m",
			DelayMS: 400,
		}
		require.Equal(t, want, show(t, false, e))
	}
}

// TestShownRun checks that a gate's decision is shown as a sentence, and an interrupt
// before its tool call.
func TestShownRun(t *testing.T) {
	t.Parallel()
	call := &abi.Call{ID: "c1", Name: "pay", Arguments: "{}"}
	recordedCall := func(entry, what, answer string) runlog.RecordedCall {
		return runlog.RecordedCall{
			CallRecord: record.CallRecord{Entry: entry, What: what, Call: call.ID, Done: true, Answer: json.RawMessage(answer)},
		}
	}
	x := &exported{Run: &journal.RunInfo{},
		History: &runlog.History{
			Phases: []runlog.PhaseRecord{{Phase: runlog.PhaseTools, Step: 1, Calls: []runlog.RecordedCall{
				recordedCall("guard", "gate_tool", `{"decision":"allow"}`),
				recordedCall("other", "gate_tool", `{"decision":"deny","message":"no"}`),
				recordedCall("", "tool", `{"content":"paid"}`),
			}}},
			Answered: []runlog.Answered{
				{Answers: map[string]json.RawMessage{"int_1": json.RawMessage("true")}, TimeMS: 1000, By: "eve"},
			},
		},
		Events: []abi.Event{
			{Type: abi.EventToolCall, Step: 1, Call: call},
			{
				Type:       abi.EventRunPaused,
				Step:       1,
				Interrupts: []abi.Pending{{ID: "int_1", Entry: "ask", Reason: "May it?", Call: call}},
			},
			{Type: abi.EventToolResult, Step: 1, Call: call, Result: abi.TextResult("paid")},
		}}
	v := &runView{maxText: showShort}
	require.Contains(t, v.text(x, time.Now()), `
  • guard allows
  • other denies: no
  ‖ ask asks: May it?  pay {}
    → approve, by eve, after 1s
  ← pay: paid
`)
}

// TestErasedCalls checks that erased calls are shown as such.
func TestErasedCalls(t *testing.T) {
	t.Parallel()
	erased := func(entry, what string) runlog.RecordedCall {
		return runlog.RecordedCall{CallRecord: record.CallRecord{Entry: entry, What: what, Done: true, Erased: true}}
	}
	x := &exported{Run: &journal.RunInfo{ID: "run_1"}, History: &runlog.History{
		Phases: []runlog.PhaseRecord{
			{Phase: runlog.PhaseStart, Calls: []runlog.RecordedCall{erased("redact", "before_agent")}},
		},
	}}
	x.History.Phases[0].Calls = append(x.History.Phases[0].Calls, erased("", "model"))
	v := &runView{maxText: showShort}
	text := v.text(x, time.Now())
	require.Contains(t, text, "  • redact before_agent: erased\n  • model: erased\n")
	require.Contains(t, text, "store runs with --keep-originals")
}
