package tck

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// outcomes holds what a canned host reports about each case.
var outcomes = map[string]*wire.Outcome{
	"empty":   {},
	"skipped": {Skipped: "no tools"},
	"refused": {Refused: "two middlewares have the same name"},
	"full": {
		Events: []abi.Event{
			{Type: abi.EventRunStarted, Seq: 1, Run: "run", TimeMS: 1},
			{Type: abi.EventRunFinished, Seq: 2, Run: "run", TimeMS: 2, FinishReason: abi.RunStop},
		},
		ModelCalls: []wire.ModelCall{{Model: "scripted", Tools: []string{"look"}, Messages: []abi.Message{abi.User("hi\n")}}},
		Client:     []json.RawMessage{json.RawMessage(`{"type":"RUN_STARTED"}`)},
		State:      []abi.Message{abi.User("hi\n"), abi.Assistant("hello")},
	},
}

// canned is a host that returns the outcome of a case from the map outcomes, and an error for a case
// that is not in the map.
type canned struct{ quiet }

func (canned) Run(_ context.Context, r *wire.Request) (*wire.Outcome, error) {
	if o := outcomes[r.ID]; o != nil {
		return o, nil
	}
	return nil, errors.New("out of order")
}

// serves is a program that serves a canned host.
func serves() int {
	if err := wire.Serve(context.Background(), canned{}, stdin, os.Stdout); err != nil {
		return 1
	}
	return 0
}

// TestServe checks that the kit receives the outcomes and errors of a host that is served by a
// program, and that the program ends without an error at the end of its input.
func TestServe(t *testing.T) {
	h, stop := start(t, "serves")
	hello, err := h.Hello(t.Context())
	require.NoError(t, err)
	require.Equal(t, "quiet", hello.Host)
	for id, want := range outcomes {
		got, err := h.Run(t.Context(), &wire.Request{Type: "case", ID: id})
		require.NoError(t, err, id)
		require.Equal(t, want, got, id)
	}
	_, err = h.Run(t.Context(), &wire.Request{Type: "case", ID: "other"})
	require.EqualError(t, err, "the host reports: out of order")
	require.NoError(t, stop())
}

// TestServeInput checks the answers to lines of the kit, and the error that Serve returns.
func TestServeInput(t *testing.T) {
	const greeting = `{"type":"hello","protocol":1}` + "\n"
	const request = `{"type":"case","id":"empty"}` + "\n"
	const answered = `{"type":"hello","protocol":1,"host":"quiet"}` + "\n"
	const result = `{"type":"result","id":"empty"}` + "\n"
	for name, test := range map[string]struct{ in, out, err string }{
		"nothing":           {},
		"only a greeting":   {in: greeting, out: answered},
		"two requests":      {in: greeting + request + request, out: answered + result + result},
		"no final newline":  {in: greeting + strings.TrimSpace(request), out: answered + result},
		"half a request":    {in: greeting + `{"type":"ca`, out: answered, err: "read request: "},
		"malformed request": {in: greeting + "run!\n" + request, out: answered, err: "read request: "},
		"malformed hello":   {in: "hi!\n" + request, err: "read hello: "},
		"another version":   {in: `{"type":"hello","protocol":2}` + "\n", err: "the kit speaks version 2 of the protocol"},
		"unknown key": {
			in:  greeting + `{"type":"case","id":"empty","color":"red"}` + "\n" + request,
			out: answered + `{"type":"failed","id":"empty","reason":"unknown key \"color\""}` + "\n" + result,
		},
		"oversized line": {
			in:  greeting + request + strings.Repeat("x", wire.MaxRequest+1) + "\n" + request,
			out: answered + result, err: bufio.ErrTooLong.Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := wire.Serve(t.Context(), canned{}, strings.NewReader(test.in), &out)
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.err)
			}
			require.Equal(t, test.out, out.String())
		})
	}
}

// TestServeAnswersInTurn checks that each answer is written before the next request is read.
func TestServeAnswersInTurn(t *testing.T) {
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- wire.Serve(t.Context(), canned{}, in, out) }()
	lines := bufio.NewScanner(answers)
	for _, line := range []string{`{"type":"hello","protocol":1}`, `{"type":"case","id":"empty"}`, `{"type":"case","id":"other"}`} {
		_, err := io.WriteString(requests, line+"\n")
		require.NoError(t, err)
		require.True(t, lines.Scan())
	}
	require.Contains(t, lines.Text(), "out of order")
	require.NoError(t, requests.Close())
	require.NoError(t, <-done)
}
