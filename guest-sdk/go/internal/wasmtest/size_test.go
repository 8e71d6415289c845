package wasmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
)

// forWasm runs the go command in dir with the environment for WebAssembly modules, and returns its
// standard output.
func forWasm(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it builds modules with Go")
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	var stderr []byte
	if failed, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns the error unwrapped
		stderr = failed.Stderr
	}
	require.NoError(t, err, "%s", stderr)
	return string(out)
}

// TestDependencies checks that the SDK does not import packages that make modules large. Packages
// that initialize themselves are linked even if they are not used: fmt and its imports take 0.4 MB,
// time alone 0.3 MB.
func TestDependencies(t *testing.T) {
	t.Parallel()
	deps := "\n" + forWasm(t, ".", "list", "-deps", "../../middleware")
	for _, heavy := range []string{
		"fmt", "encoding/json", "os", "time", "log", "syscall", "io/fs", "internal/poll", "internal/godebug", "regexp",
		"context",
	} {
		require.NotContains(t, deps, "\n"+heavy+"\n")
	}
}

// TestSize checks that modules do not exceed their maximum sizes in bytes. Go's runtime takes 1.8
// MB of each.
func TestSize(t *testing.T) {
	t.Parallel()
	for dir, most := range map[string]int64{
		"testdata/declared":   2_350_000,
		"testdata/registered": 3_100_000,
		fromTemplate(t):       2_400_000,
	} {
		out := filepath.Join(t.TempDir(), "module.wasm")
		forWasm(t, dir, "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, ".")
		info, err := os.Stat(out)
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), most, "%s has grown: see what it consists of with go build -ldflags=-dumpdep",
			dir)
		t.Logf("%s: %.2f MB", filepath.Base(dir), float64(info.Size())/1e6)
	}
}

// fromTemplate returns a directory with a module from the Go template of "agent-runner module new".
func fromTemplate(t *testing.T) string {
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range []string{"main.go", "go.mod"} {
		text, err := os.ReadFile(
			filepath.Join(root, "cmd", "agent-runner", "internal", "modules", "templates", "go", name+".tmpl"),
		)
		require.NoError(t, err)
		var b strings.Builder
		require.NoError(
			t,
			template.Must(template.New(name).Parse(string(text))).
				Execute(&b, map[string]string{"Name": "template", "Version": "v0.0.0"}),
		)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o600))
	}
	require.NoError(t, os.Symlink(root, filepath.Join(dir, "agent-middleware")))
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))
	return dir
}
