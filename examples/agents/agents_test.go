// Package agents contains only tests. They run the agents in the package's folders, and record
// their conversations:
//
//	go test ./examples/agents -update
package agents

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

var update = flag.Bool("update", false, "record each conversation.json from its model.jsonl")

// modules matches the references to modules in an agent.yaml. The modules must be built before the
// file is loaded.
var modules = regexp.MustCompile(`module: \.\./\.\./\.\./build/wasm/([a-z-]+)\.wasm`)

// An example is an agent and its test setup.
type example struct {
	name    string
	servers map[string]string          // folders of its MCP servers by program name
	prepare func(*testing.T) string    // creates the working folder of the first server
	answers map[string]json.RawMessage // a person's answers by the calls that they decide
}

// recording returns the path of the recorded conversation.
func (e *example) recording() string { return filepath.Join(e.name, "conversation.json") }

// An outcome holds the events of a run and the path of its working folder.
type outcome struct {
	events []abi.Event
	folder string // the result of prepare
}

// test records the conversation again, checks that it equals the stored one, and returns the
// outcome of replaying it. With -update it first stores the new recording.
func (e *example) test(t *testing.T) *outcome {
	t.Helper()
	replies, err := scripted.Parse(e.read(t, "model.jsonl"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "conversation.json")
	if *update {
		path = e.recording()
	}
	recorder, err := cassette.NewRecorder(path, scripted.New(replies...))
	require.NoError(t, err)
	h := newHost(t)
	f := e.file(t)
	e.run(t, h, f, recorder)
	recorded, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(
		t,
		string(e.read(t, "conversation.json")),
		string(recorded),
		"the recording is out of date: go test ./examples/agents -update",
	)

	c, err := cassette.Load(e.recording())
	require.NoError(t, err)
	replay := c.Replay()
	out := e.run(t, h, f, replay)
	require.Zero(t, replay.Left(), "answers that were not asked for")
	return out
}

func (e *example) read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(e.name, name))
	require.NoError(t, err)
	return b
}

// run runs the agent, and answers the questions of the run with e.answers. It fails the test if
// e.answers or run.sh has no answer to a question.
func (e *example) run(t *testing.T, h *host.Host, f *agentfile.File, m model.Model) *outcome {
	t.Helper()
	out := &outcome{}
	if e.prepare != nil {
		out.folder = e.prepare(t)
		command := f.Tools.MCP[0].Command
		command[len(command)-1] = out.folder
	}
	a, err := h.NewAgentFromFile(t.Context(), f, &host.FileOptions{Model: m})
	require.NoError(t, err)
	defer a.Close()
	prompt := strings.TrimSpace(string(e.read(t, "prompt.txt")))
	paused := out.take(t, a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User(prompt)}}))
	script, err := os.ReadFile("run.sh")
	require.NoError(t, err)
	for paused != nil {
		answers := map[string]json.RawMessage{}
		for _, i := range paused.Interrupts {
			require.Contains(t, e.answers, i.Call.ID, "nobody answers %s", i.Reason)
			answers[i.ID] = e.answers[i.Call.ID]
			require.Contains(t, string(script), i.ID+"=", "run.sh does not answer %s", i.Reason)
		}
		events, err := a.Resume(t.Context(), paused.State, answers)
		require.NoError(t, err)
		paused = out.take(t, events)
	}
	return out
}

// file loads the example's agent.yaml, after building its modules and servers.
func (e *example) file(t *testing.T) *agentfile.File {
	t.Helper()
	root, err := guestbuild.Root()
	require.NoError(t, err)
	for _, m := range modules.FindAllSubmatch(e.read(t, "agent.yaml"), -1) {
		_, err := guestbuild.Module(t.Context(), root, "examples/wasm-middlewares/"+string(m[1]))
		require.NoError(t, err)
	}
	f, err := agentfile.Load(filepath.Join(e.name, "agent.yaml"))
	require.NoError(t, err)
	for i := range f.Tools.MCP {
		command := f.Tools.MCP[i].Command
		server := e.servers[filepath.Base(command[0])]
		require.NotEmpty(t, server)
		command[0] = filepath.Join(t.TempDir(), "server")
		built, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-s -w",
			"-o", command[0], "./"+server).CombinedOutput()
		require.NoError(t, err, string(built))
	}
	return f
}

func newHost(t *testing.T) *host.Host {
	t.Helper()
	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	return h
}

// take collects the events of a run until it ends or pauses. It returns the error of a pause, or
// nil if the run ended.
func (o *outcome) take(t *testing.T, events iter.Seq2[abi.Event, error]) *host.PausedError {
	t.Helper()
	var paused *host.PausedError
	for event, err := range events {
		o.events = append(o.events, event)
		if errors.As(err, &paused) {
			return paused
		}
		require.NoError(t, err)
	}
	return nil
}

// did counts the modules' events and log lines, the results of tool calls by their source, and the
// questions to a person. The keys are descriptions such as "call-log log".
func (o *outcome) did() map[string]int {
	did := map[string]int{}
	for _, e := range o.events {
		switch e.Type {
		case abi.EventCustom:
			did[e.Entry+" "+e.Name]++
		case abi.EventLog:
			did[e.Entry+" log"]++
		case abi.EventToolResult:
			did[e.Source+" answers "+e.Call.ID]++
		case abi.EventRunPaused:
			for _, i := range e.Interrupts {
				did["asked about "+i.Call.ID]++
			}
		}
	}
	return did
}

// result returns the result of a call as the model read it.
func (o *outcome) result(t *testing.T, call string) string {
	t.Helper()
	for _, e := range o.events {
		if e.Type == abi.EventToolResult && e.Call.ID == call {
			return e.Result.Content.String()
		}
	}
	t.Fatalf("call %s has no result; what happened: %v", call, o.did())
	return ""
}

// answer returns the final message of the run, which must have ended with an answer.
func (o *outcome) answer(t *testing.T) string {
	t.Helper()
	last := o.events[len(o.events)-1]
	require.Equal(t, abi.EventRunFinished, last.Type)
	require.Equal(t, abi.RunStop, last.FinishReason)
	return last.Message.Content.String()
}

// require checks that the count of each of wants in the result of did is at least 1.
func (o *outcome) require(t *testing.T, wants ...string) {
	t.Helper()
	did := o.did()
	for _, want := range wants {
		require.Positive(t, did[want], "%s; what happened: %v", want, did)
	}
}
