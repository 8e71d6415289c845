package server_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// typescriptClient is the folder of the npm package @agent-runner/client.
const typescriptClient = "../../host/client/typescript"

// command runs a program in a folder, and returns its output.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, append(
		os.Environ(),
		append(env, "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")...)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s %v\n%s", name, args, out)
	return string(out)
}

// packClient packs the npm package @agent-runner/client and installs it into dir, as if it had been
// published. It returns the package's folder.
func packClient(t *testing.T, dir string) (folder string) {
	t.Helper()
	command(t, typescriptClient, nil, "npm", "pack", "--silent", "--pack-destination", dir)
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	require.NoError(t, err)
	require.Len(t, packed, 1)
	folder = filepath.Join(dir, "node_modules", "@agent-runner", "client")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	command(t, dir, nil, "tar", "xzf", packed[0], "-C", folder, "--strip-components=1")
	return folder
}

// TestTypeScriptClient checks the OpenAPI document with Redocly's recommended rules, that the types of the
// npm package are those of the document, and that programs with the packed package compile and work. With
// AGENT_RUNNER_UPDATE=1 it writes the types.
func TestTypeScriptClient(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	redocly, generate, compile := npmtest.Bin(t, "redocly"), npmtest.Bin(t, "openapi-typescript"), npmtest.Bin(t, "tsc")
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"clerk": servertest.HelloAgent})
	dir := t.TempDir()
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	write("openapi.json", f.OK("GET", "/openapi.json", "", nil, nil).Body)
	require.Contains(t, command(t, dir, nil, redocly, "lint", "openapi.json", "--extends", "recommended"), "valid")

	command(t, dir, nil, generate, "openapi.json", "-o", "openapi.d.ts")
	types, err := os.ReadFile(filepath.Join(dir, "openapi.d.ts"))
	require.NoError(t, err)
	at := filepath.Join(typescriptClient, "openapi.d.ts")
	if os.Getenv("AGENT_RUNNER_UPDATE") != "" {
		require.NoError(t, os.WriteFile(at, types, 0o644))
	}
	stored, err := os.ReadFile(at)
	require.NoError(t, err)
	require.Equal(
		t,
		string(stored),
		string(types),
		"%s is not of this document; write it with: AGENT_RUNNER_LONG_TESTS=1 AGENT_RUNNER_UPDATE=1 go test ./internal/server -run TestTypeScriptClient",
		at,
	)

	folder := packClient(t, dir)
	program, err := os.ReadFile("testdata/client.ts")
	require.NoError(t, err)
	write("client.ts", program)
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	require.NoError(t, err)
	example := regexp.MustCompile("(?s)```ts\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, example)
	write("readme.ts", example[1])
	write("package.json", []byte(`{"type":"module"}`))
	write("node.d.ts", []byte("declare const process: { env: Record<string, string | undefined> };\n"))
	command(
		t,
		dir,
		nil,
		compile,
		"--strict",
		"--target",
		"es2022",
		"--module",
		"nodenext",
		"--lib",
		"es2023,dom,dom.iterable,dom.asynciterable",
		"node.d.ts",
		"client.ts",
		"readme.ts",
	)
	env := []string{"AGENT_RUNNER_SERVER=" + f.URL, "AGENT_RUNNER_KEY=" + f.Acme}
	require.Equal(t, "ok\n", command(t, dir, env, "node", "client.js"))
	out := command(t, dir, env, "node", "readme.js")
	require.Contains(t, out, "Hello there, how are you?\nstop\n")
	require.Contains(t, out, "404 not-found\n")
}
