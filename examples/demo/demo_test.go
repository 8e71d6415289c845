// Package demo contains only tests. They run the demo of "make run", and record its conversation:
//
//	go test ./examples/demo -update
package demo

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/cassette"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

var update = flag.Bool("update", false, "record conversation.json from model.jsonl")

const recording = "conversation.json"

// run runs the demo agent and returns its events.
func run(t *testing.T, m model.Model) []abi.Event {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it builds all examples")
	}
	root, err := guestbuild.Root()
	require.NoError(t, err)
	folders, err := guestbuild.Find(root, "examples/wasm-middlewares/...")
	require.NoError(t, err)
	for _, folder := range folders {
		guestbuild.Build(t, folder)
	}
	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	f, err := agentfile.Load("agent.yaml")
	require.NoError(t, err)
	a, err := h.NewAgentFromFile(t.Context(), f, &host.FileOptions{Model: m})
	require.NoError(t, err)
	defer a.Close()
	var events []abi.Event
	for e, err := range a.Run(t.Context(), host.Input{Messages: messages(t)}) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

// messages returns the earlier messages and the prompt, joined as the command joins them.
func messages(t *testing.T) []abi.Message {
	t.Helper()
	var out []abi.Message
	require.NoError(t, json.Unmarshal(read(t, "earlier.json"), &out))
	return append(out, abi.User(strings.TrimSpace(string(read(t, "prompt.txt")))))
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return b
}

// script returns the scripted model whose conversation is recorded.
func script(t *testing.T) model.Model {
	t.Helper()
	replies, err := scripted.Parse(read(t, "model.jsonl"))
	require.NoError(t, err)
	return scripted.New(replies...)
}

// TestRecording checks that the script reproduces the recording.
func TestRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), recording)
	if *update {
		path = recording
	}
	recorder, err := cassette.NewRecorder(path, script(t))
	require.NoError(t, err)
	run(t, recorder)
	require.Equal(
		t,
		string(read(t, path)),
		string(read(t, recording)),
		"the recording is out of date: go test ./examples/demo -update",
	)
}

// TestReplay checks that each middleware acts in the replay, and that neither the events nor the
// recording contain hidden data.
func TestReplay(t *testing.T) {
	c, err := cassette.Load(recording)
	require.NoError(t, err)
	events := run(t, c.Replay())
	did := map[string]int{}
	var streamed strings.Builder
	for _, e := range events {
		switch e.Type {
		case abi.EventCustom:
			did[e.Entry+" "+e.Name]++
		case abi.EventLog:
			did[e.Entry+" log"]++
		case abi.EventToolResult:
			did[e.Source+" answers "+e.Call.ID]++
		case abi.EventChunk:
			if e.Step == 3 {
				streamed.WriteString(e.Chunk.Text)
			}
		}
	}
	for _, want := range []string{
		"patch-tool-calls patched", "tool-policy answers call_7", "tool-cache cache_hit", "tool-cache answers call_6",
		"redact redacted", "call-log log", "call-log summary", "tool answers call_3", "tool answers call_5",
	} {
		require.Positive(t, did[want], "%s; what happened: %v", want, did)
	}
	last := events[len(events)-1]
	answer := "Bob owes us 1475.60 with tax. His own address is hidden from me, so write to [REDACTED_EMAIL], who can reach him. The keys are not for me to look for."
	require.Equal(t, answer, last.Message.Content.String())
	require.Equal(t, answer, streamed.String())

	all, err := json.Marshal(events)
	require.NoError(t, err)
	sent := string(read(t, recording))
	for _, secret := range []string{
		"bob.miller@", "amy@okafor", "4111 1111", "203.0.113.7", "DE89 3704", "C-1042", "behind the clock",
	} {
		require.NotContains(t, string(all), secret)
		require.NotContains(t, sent, secret)
	}
	require.Contains(t, sent, "was canceled - another message came in before it could be completed")
	require.NotContains(t, sent, "clerk@shop.example", "the user's own address does not reach the model")
}
