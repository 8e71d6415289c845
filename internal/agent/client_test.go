package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// lines is an encoder that encodes each event as one line.
type lines struct{}

func (lines) Protocol() string { return "lines" }

func (lines) Encode(e abi.Event) []chain.Encoded {
	line := string(e.Type)
	switch {
	case e.Chunk != nil:
		line += " " + e.Chunk.Text
	case e.Type == abi.EventLog:
		line += " " + e.Text
	case e.Message != nil:
		line += " " + e.Message.Content.String()
	}
	b, _ := abijson.Marshal(map[string]string{"line": line})
	return []chain.Encoded{{JSON: b}}
}

// translator returns a middleware that replaces the text of every chunk with "[REDACTED]", and logs
// when the run finishes or pauses.
func translator() *inproc.Middleware {
	return &inproc.Middleware{
		TranslateBefore: func(_ context.Context, c *hook.Call, in *abi.TranslateInput) (*abi.TranslateAnswer, error) {
			var e abi.Event
			if err := json.Unmarshal(in.Event, &e); err != nil {
				return nil, err
			}
			switch e.Type {
			case abi.EventChunk:
				e.Chunk.Text = "[REDACTED]"
			case abi.EventRunFinished, abi.EventRunPaused:
				c.Log(contract.LogInfo, "translated the end")
				return nil, nil
			default:
				return nil, nil
			}
			b, err := abijson.Marshal(e)
			return &abi.TranslateAnswer{Event: b}, err
		},
	}
}

// collect returns the lines of a stream's events and the last error. It requires that the events
// are numbered from+1, from+2 and so on.
func collect(t *testing.T, stream func(func(delivery.Event, error) bool), from int64) (out []string, err error) {
	t.Helper()
	for e, failed := range stream {
		from++
		require.Equal(t, from, e.Event.Seq, "events are numbered without gaps")
		for _, b := range e.Encoded {
			var x map[string]string
			require.NoError(t, json.Unmarshal(b, &x))
			out = append(out, x["line"])
		}
		err = failed
	}
	return out, err
}

// TestRunFor checks that a client's events pass the run's translators, that translation does not
// change the run's own message, and that run_finished is the last event.
func TestRunFor(t *testing.T) {
	t.Parallel()
	a, err := agent.New(&agent.Options{Model: scripted.New(scripted.Text("hello")),
		Chain: with(t, hook.Entry{Name: "redact", Middleware: translator()})})
	require.NoError(t, err)
	got, err := collect(t, a.RunFor(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}, lines{}), 0)
	require.NoError(t, err)
	require.Equal(t, []string{"run_started", "step_started", "chunk [REDACTED]", "message hello", "step_finished",
		"log translated the end", "run_finished hello"}, got)
}

// TestResumeFor checks that run_paused is translated, that a client with a new encoder can resume
// the run, and that the event numbers continue.
func TestResumeFor(t *testing.T) {
	t.Parallel()
	asks := &inproc.Middleware{
		BeforeAgent: func(_ context.Context, _ *hook.Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			if in.Resume != nil {
				return nil, nil
			}
			return &abi.BeforeAgentAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "may I?"}}}, nil
		},
	}
	a, err := agent.New(&agent.Options{Model: scripted.New(scripted.Text("hello")),
		Chain: with(t, hook.Entry{Name: "asks", Middleware: asks}, hook.Entry{Name: "redact", Middleware: translator()})})
	require.NoError(t, err)
	got, err := collect(t, a.RunFor(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}, lines{}), 0)
	var paused *agent.PausedError
	require.ErrorAs(t, err, &paused)
	require.Equal(t, []string{"run_started", "log translated the end", "run_paused"}, got)

	stream, err := a.ResumeFor(
		t.Context(),
		paused.State,
		map[string]json.RawMessage{paused.Interrupts[0].ID: json.RawMessage(`1`)},
		lines{},
	)
	require.NoError(t, err)
	got, err = collect(t, stream, 3)
	require.NoError(t, err)
	require.Equal(t, "step_started", got[0])
	require.Equal(t, "run_finished hello", got[len(got)-1])
}

// TestRunForEnds checks that a client's run ends when it is canceled and when the client leaves.
func TestRunForEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := &inproc.Middleware{
		BeforeAgent: func(ctx context.Context, _ *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			<-ctx.Done()
			return nil, nil
		},
	}

	a, err := agent.New(&agent.Options{Model: scripted.New(scripted.Text("hello")),
		Chain: with(t, hook.Entry{Name: "redact", Middleware: translator()}, hook.Entry{Name: "waits", Middleware: waits})})
	require.NoError(t, err)
	var last delivery.Event
	for e, err := range a.RunFor(ctx, agent.Input{Messages: []abi.Message{abi.User("hi")}}, lines{}) {
		last = e
		cancel()
		_ = err
	}
	require.Equal(t, abi.EventRunFinished, last.Event.Type)
	require.Equal(t, abi.RunCanceled, last.Event.FinishReason)
	require.Equal(t, `[{"line":"run_finished"}]`, fmt.Sprintf("%s", last.Encoded))

	for range a.RunFor(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}, lines{}) {
		break
	}
}

// TestClientTools checks that calls of client tools pause the run. A tool of the host that was
// called in the same round must not run again.
func TestClientTools(t *testing.T) {
	t.Parallel()
	own := 0
	m := scripted.New(
		scripted.Calls(
			abi.NewToolCall("1", "t", "{}"),
			abi.NewToolCall("2", "show", `{"a":1}`),
			abi.NewToolCall("3", "show", `{"a":2}`),
			abi.NewToolCall("4", "show", `{}`),
		),
		scripted.Text("done"),
	)
	base, err := agent.New(&agent.Options{Model: m, Tools: counted(&own)})
	require.NoError(t, err)
	a, err := base.WithTools(tool.ByClient(abi.Tool{Name: "show", Description: "shows it to the user"}))
	require.NoError(t, err)
	var paused *agent.PausedError
	for _, err := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("go")}}) {
		errors.As(err, &paused)
	}
	require.NotNil(t, paused)
	require.Len(t, paused.Interrupts, 3)
	answers := map[string]json.RawMessage{}
	for i, p := range paused.Interrupts {
		require.True(t, toolcall.IsClient(p))
		answers[p.ID] = json.RawMessage([]string{`"shown"`, `{"content":"no such thing","is_error":true}`, `7`}[i])
	}
	events, err := a.Resume(context.Background(), paused.State, answers)
	require.NoError(t, err)
	var last abi.Event
	for e, err := range events {
		require.NoError(t, err)
		last = e
	}
	require.Equal(t, "done", last.Message.Content.String())
	require.Equal(t, 1, own)
	asked := m.Requests()[1].Messages
	require.Equal(t, "shown", asked[3].Content.String())
	require.Equal(t, "no such thing", asked[4].Content.String())
	require.Contains(t, asked[5].Content.String(), "want a text or a result")
	require.Len(t, m.Requests()[0].Tools, 2)

	_, err = base.WithTools(tool.ByClient(abi.Tool{Name: "t"}))
	require.ErrorContains(t, err, `two tools are named "t"`)
	require.Len(t, base.Tools, 1)
}
