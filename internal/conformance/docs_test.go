package conformance

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// program matches a complete Go program in Markdown.
var program = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// TestComingFrom checks that the modules in docs/from-*.md build, load, and accept the
// configurations in those guides.
func TestComingFrom(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it runs every guide")
	}
	t.Parallel()
	texts, err := filepath.Glob(filepath.Join(root, "docs", "from-*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, texts)
	loader, err := module.NewLoader(context.Background(), &module.LoaderOptions{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close(context.Background())) })
	for _, path := range texts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			found := program.FindSubmatch(text)
			require.NotNil(t, found, "the text has no Go program")
			m, err := loader.Load(t.Context(), buildProgram(t, found[1]), policy.Limits{})
			require.NoError(t, err)
			_, err = module.Configure(
				t.Context(), m,
				m.Info().Description.Name,
				configOf(t, string(text), m.Info().Description.Name),
				policy.Grants{},
			)
			require.NoError(t, err)
		})
	}
}

// configOf returns the configuration of the named module from the first command line in text that
// sets one.
func configOf(t *testing.T, text, name string) json.RawMessage {
	t.Helper()
	_, config, ok := strings.Cut(text, "--module-config '"+name+"=")
	require.True(t, ok, "the text does not show how %q is configured", name)
	config, _, _ = strings.Cut(config, "'")
	return json.RawMessage(config)
}

// buildProgram builds source as if it were a file in the repository, and returns the module's path.
func buildProgram(t *testing.T, source []byte) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, source, 0o600))
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	overlay, err := json.Marshal(
		map[string]any{"Replace": map[string]string{filepath.Join(top, "docs", "program", "main.go"): file}},
	)
	require.NoError(t, err)
	replace := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(replace, overlay, 0o600))
	out := filepath.Join(dir, "program.wasm")
	build := exec.CommandContext(
		t.Context(),
		"go",
		"build",
		"-overlay",
		replace,
		"-trimpath",
		"-ldflags=-s -w",
		"-buildmode=c-shared",
		"-o",
		out,
		"./docs/program",
	)
	build.Dir = top
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return out
}
