package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/openaitest"
)

var update = flag.Bool("update", false, "write the recording anew")

// TestDemoIsFresh checks that the built-in recording equals a new recording of the same
// conversation with the current tools.
func TestDemoIsFresh(t *testing.T) {
	t.Parallel()
	call := scripted.Calls(abi.NewToolCall("call_1", "calculator", `{"expression": "2340 * 17 / 100"}`))
	call.Response.Usage = &abi.Usage{PromptTokens: 212, CompletionTokens: 19, TotalTokens: 231}
	answer := scripted.Text("17% of 2,340 is 397.8.")
	answer.Size = 6
	answer.Response.Usage = &abi.Usage{PromptTokens: 243, CompletionTokens: 13, TotalTokens: 256}
	server, err := openaitest.New(scripted.New(call, answer))
	require.NoError(t, err)
	t.Cleanup(server.Close)

	path := filepath.Join(t.TempDir(), "demo.cassette")
	var out, errs bytes.Buffer
	e := &cli.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }}
	code := execute(t.Context(), e,
		[]string{"run", "--model", "gpt-4o-mini", "--base-url", server.URL, "--record", path, hosting.DemoPrompt})
	require.Zero(t, code, errs.String())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("internal/hosting/demo.cassette", got, 0o644))
		return
	}
	require.Equal(t, string(got), string(hosting.DemoCassette),
		"run go test ./cmd/agent-runner -run TestDemoIsFresh -update")
}
