package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/npmtest"
)

// TestEditor checks that TypeScript's language server, which editors use, reports no error in a new
// module, with and without the types of browsers, and that it does report errors.
func TestEditor(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it needs npm")
	}
	t.Parallel()
	packages, err := npmtest.Install(
		filepath.Join("..", "..", "guest-sdk", "typescript", "testdata", "npm"),
		filepath.Join("..", "..", "build", "npm"),
	)
	if err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "tsserver: %v", err)
		t.Skipf("SKIPPED, since tsserver is not there: %v", err)
	}
	server, err := filepath.Abs(filepath.Join(packages, "node_modules", ".bin", "tsserver"))
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "guard")
	var out bytes.Buffer
	e := &cli.Env{In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(string) string { return "" }}
	require.Equal(t, 0, execute(t.Context(), e, []string{"module", "new", dir}), "%s", &out)
	script, config := filepath.Join(dir, "guard.ts"), filepath.Join(dir, "tsconfig.json")
	require.Empty(t, editorErrors(t, server, script))

	text, err := os.ReadFile(config)
	require.NoError(t, err)
	text = bytes.Replace(text, []byte(`"lib": [`), []byte(`"lib": ["dom", `), 1)
	require.NoError(t, os.WriteFile(config, text, 0o600))
	require.Empty(t, editorErrors(t, server, script))

	text, err = os.ReadFile(script)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(script, bytes.Replace(text, []byte("allow()"), []byte("alow()"), 1), 0o600))
	require.Equal(t, []string{"Cannot find name 'alow'. Did you mean 'allow'?"}, editorErrors(t, server, script))
}

// editorErrors opens a file in TypeScript's language server, and returns the errors that it reports.
func editorErrors(t *testing.T, server, file string) (out []string) {
	t.Helper()
	var requests bytes.Buffer
	commands := []string{"open", "syntacticDiagnosticsSync", "semanticDiagnosticsSync"}
	for i, command := range commands {
		require.NoError(t, json.NewEncoder(&requests).Encode(map[string]any{
			"seq": i, "type": "request", "command": command, "arguments": map[string]string{"file": file},
		}))
	}
	cmd := exec.CommandContext(t.Context(), server, "--disableAutomaticTypingAcquisition")
	cmd.Stdin = &requests
	answers, err := cmd.Output()
	require.NoError(t, err)
	answered := 0
	for lines := bufio.NewScanner(bytes.NewReader(answers)); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "{") {
			continue // a header
		}
		var answer struct {
			Type    string
			Command string
			Success bool
			Body    json.RawMessage
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &answer))
		if answer.Type != "response" || !strings.HasSuffix(answer.Command, "DiagnosticsSync") {
			continue
		}
		var found []struct{ Text string }
		require.True(t, answer.Success, "%s", lines.Bytes())
		require.NoError(t, json.Unmarshal(answer.Body, &found))
		answered++
		for _, f := range found {
			out = append(out, f.Text)
		}
	}
	require.Equal(t, 2, answered, "%s", answers)
	return out
}
