package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

type object = map[string]any

// A bench is a test host whose tool gives the scripted answers in order and repeats the last. An
// answer is an error or a string, which is an error result if it begins with "!".
type bench struct {
	*middlewaretest.Host
	t     *testing.T
	calls int
}

func newBench(t *testing.T, config object, answers ...any) *bench {
	t.Helper()
	b := &bench{Host: middlewaretest.New(middleware.Options{}, newRetry()), t: t}
	require.NoError(t, b.Configure(config))
	b.Tool = func(abi.Call) (*abi.Result, error) {
		answer := answers[min(b.calls, len(answers)-1)]
		b.calls++
		if err, ok := answer.(error); ok {
			return nil, err
		}
		if s, ok := strings.CutPrefix(answer.(string), "!"); ok {
			return abi.ErrorResult(s), nil
		}
		return abi.TextResult(answer.(string)), nil
	}
	return b
}

// call calls the tool and describes its result: "error: …" for a failed call, "!…" for an error
// result, and "as it came" if the module left the tool's own result in place.
func (b *bench) call(call abi.Call) string {
	b.t.Helper()
	require.NoError(b.t, b.Wipe())
	before := b.calls
	answer, err := b.WrapToolCall(abi.WrapToolCallInput{Call: call, Stream: b.Pieces > 0})
	switch {
	case err != nil:
		return "error: " + err.Error()
	case answer.Result == nil:
		require.Greater(b.t, b.calls, before)
		return "as it came"
	case answer.Result.IsError:
		return "!" + answer.Result.Content.String()
	default:
		return answer.Result.Content.String()
	}
}

var read = abi.Call{Name: "read", Arguments: "{}", Idempotent: true}

func TestTriesAgain(t *testing.T) {
	t.Parallel()
	busy := &abi.Error{Code: abi.CodeTool, Message: "503 busy"}
	for name, c := range map[string]struct {
		config  object
		call    abi.Call
		answers []any
		calls   int
	}{
		"goes well":                {nil, read, []any{"ok"}, 1},
		"fails once":               {nil, read, []any{busy, "ok"}, 2},
		"fails three times":        {nil, read, []any{busy}, 3},
		"fails for good":           {nil, read, []any{errors.New("no such file")}, 1},
		"any failure":              {object{"when": "any"}, read, []any{errors.New("no such file")}, 3},
		"not even then":            {object{"when": "any"}, read, []any{&abi.Error{Code: abi.CodeInvalid, Message: "timeout must be a number"}}, 1},
		"denied":                   {object{"when": "any"}, read, []any{&abi.Error{Code: abi.CodeDenied, Message: "no"}}, 1},
		"says it may be tried":     {nil, read, []any{&abi.Error{Code: abi.CodeTool, Message: "hm", Retryable: true}, "ok"}, 2},
		"not reached":              {nil, read, []any{&abi.Error{Code: abi.CodeUnavailable, Message: "hm"}, "ok"}, 2},
		"by its status":            {nil, read, []any{&abi.Error{Code: abi.CodeTool, Message: "hm", Status: 429}, "ok"}, 2},
		"asks to wait":             {nil, read, []any{&abi.Error{Code: abi.CodeTool, Message: "busy", Status: 429, RetryAfterMS: 100}, "ok"}, 1},
		"an error result":          {nil, read, []any{"!request timed out", "ok"}, 2},
		"a number like a status":   {nil, read, []any{"!row 502 violates a constraint"}, 3}, // retried in vain, as the README says
		"an error result for good": {nil, read, []any{"!no such file"}, 1},
		"one's own pattern":        {object{"match": []string{"^flaky"}}, read, []any{"!flaky thing", "ok"}, 2},
		"more attempts":            {object{"attempts": 5}, read, []any{busy}, 5},
		"not idempotent":           {nil, abi.Call{Name: "send", Arguments: "{}"}, []any{busy}, 1},
		"named": {
			object{"tools": []string{"se*"}}, abi.Call{Name: "send", Arguments: "{}"}, []any{busy}, 3,
		},
		"idempotent, and others name": {object{"tools": []string{"se*"}}, read, []any{busy}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.config, c.answers...)
			got := b.call(c.call)
			require.Equal(t, c.calls, b.calls, got)
			require.Len(t, b.Events, max(0, c.calls-1))
		})
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	busy := errors.New("busy: try again")
	b := newBench(t, object{"attempts": 2, "max_pause": 3}, busy, busy, busy, busy, busy, busy, busy, "ok", busy)
	require.Contains(t, b.call(read), "busy")
	require.Contains(
		t,
		b.call(read),
		"!read failed once and is left alone for another 1 s. Go on without it, or try it again later. It said: ",
	)
	require.Equal(t, 2, b.calls)
	require.Contains(t, b.call(abi.Call{Name: "send", Arguments: "{}"}), "error: busy", "other tools are not meant")

	b.Run.NowMS += 1000
	require.Contains(t, b.call(read), "error: ")
	require.Contains(t, b.call(read), "failed 2 times and is left alone for another 2 s")
	b.Run.NowMS += 2000
	require.Contains(t, b.call(read), "error: ")
	require.Contains(t, b.call(read), "another 3 s", "not longer than that")
	b.Run.NowMS += 3000
	require.Equal(t, "as it came", b.call(read))
	require.Contains(t, b.call(read), "error: ")
	require.Contains(t, b.call(read), "failed once", "it had recovered")

	b = newBench(t, object{"pause": 0}, busy)
	b.call(read)
	b.call(read)
	require.Equal(t, 6, b.calls)

	b = newBench(t, nil, &abi.Error{Code: abi.CodeUnavailable, Message: "later", RetryAfterMS: 20_000})
	b.call(read)
	require.Contains(t, b.call(read), "another 20 s")
	b = newBench(t, nil, &abi.Error{Code: abi.CodeUnavailable, Message: "much later", RetryAfterMS: 1 << 60})
	b.call(read)
	require.Contains(t, b.call(read), "another 60 s")
}

// TestStreams checks that a call is not retried after its output was forwarded.
func TestStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, "!timeout", "never")
	b.Pieces = 3
	require.Equal(t, "as it came", b.call(read))
	require.Equal(t, 1, b.calls)

	// A result in a single batch, like that of a tool that does not stream, is not forwarded before
	// it is known to succeed.
	b = newBench(t, nil, "!timeout", "!timeout", "well")
	b.Pieces = 100
	require.Equal(t, "as it came", b.call(read))
	require.Equal(t, 3, b.calls)
	require.Len(t, b.Sent, 1)
	require.Equal(t, "well", b.Sent[0].Text)

	b = newBench(t, nil, errors.New("timeout"), "whole")
	b.Pieces = 3
	require.Equal(t, "as it came", b.call(read))
	require.Equal(t, 2, b.calls)
	require.Len(t, b.Sent, 2)
}

func TestText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "an error without a text", text(""))
	long := text("a" + strings.Repeat("é", 300))
	require.LessOrEqual(t, len(long), maxReason+len("…"))
	require.NotContains(t, long, "\ufffd")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]object{
		"attempts: 0 is not 1 to 10":          {"attempts": 0},
		"attempts is 1 and there is no pause": {"attempts": 1, "pause": 0},
		`when: "x" is not one of`:             {"when": "x"},
		"pause: want seconds":                 {"pause": 100},
		"match[1]: want a regular exp":        {"match": []string{"a", "("}},
	} {
		h := middlewaretest.New(middleware.Options{}, newRetry())
		require.ErrorContains(t, h.Configure(config), want)
	}
}
