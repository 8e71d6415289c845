//go:build !wasip1

// Package middlewares_test runs the test conversations of the example middlewares: the built
// module in the real host, with a scripted model. One test binary runs all of them, because
// linking the host takes as long as the conversations of an example.
package middlewares_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/conformance"
	"github.com/agent-runner/agent-runner/internal/golden"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

var update = flag.Bool("update", false, "update the expectations of failing conversations to the actual results")

// folder is the path of the examples relative to the repository's root.
const folder = "examples/wasm-middlewares"

// TestConversations runs all conversations (*.txtar) of each example in each of its languages.
// Package golden documents their format. A module NAME.wasm is the example in folder NAME: built
// from its Go source, from the subfolder of another language, or the script NAME.ts. With -short it
// is built from Go only. If a language has a file named leaves-out, each case in that file must be
// rejected in that language. TestConversations also checks that the example's README documents every
// configuration key and hook.
func TestConversations(t *testing.T) {
	t.Parallel()
	loader, err := module.NewLoader(t.Context(), &module.LoaderOptions{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close(context.Background())) })
	readmes, err := filepath.Glob(filepath.Join("*", "README.md"))
	require.NoError(t, err)
	for _, readme := range readmes {
		name := filepath.Dir(readme)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testExample(t, loader, name)
		})
	}
}

func testExample(t *testing.T, loader *module.Loader, name string) {
	cases, err := golden.Load(os.DirFS(name))
	require.NoError(t, err)
	sources := map[string]string{"go": "main.go", "typescript": name + ".ts"}
	for _, language := range append(guestbuild.Languages, guestbuild.Extism) {
		sources[language] = language
	}
	if slices.Contains(byTinyGo, name) {
		sources[tinyGo] = "main.go"
	}
	tested := false
	for language, source := range sources {
		source = filepath.Join(name, source)
		if _, err := os.Stat(source); err != nil {
			continue
		}
		tested = true
		t.Run(language, func(t *testing.T) {
			if testing.Short() && language != "go" {
				t.Skip("-short: only Go")
			}
			if language == tinyGo {
				guestbuild.TinyGo(t, path.Join(folder, name)) // skips the test if TinyGo is missing
			}
			if slices.Contains(guestbuild.Languages, language) {
				guestbuild.Foreign(t, path.Join(folder, name, language)) // skips the test if the toolchain is missing
			}
			leaves, err := conformance.LeavesOut(source)
			require.NoError(t, err)
			testLanguage(t, modules{t, loader, name, language}, cases, leaves)
		})
	}
	require.True(t, tested, "the folder has a README and no source")
}

// byTinyGo lists the Go examples that are also built by TinyGo, if it is installed. A build
// takes ten seconds, so there are only three: one edits messages, one runs much initialization
// code, and one keeps an index in memory that is never freed.
var byTinyGo = []string{"patch-tool-calls", "guard", "provenance"}

const tinyGo = "tinygo"

func testLanguage(t *testing.T, ms modules, cases []*golden.Case, leaves map[string]string) {
	t.Run("README", ms.readme)
	for name := range leaves {
		require.True(
			t,
			slices.ContainsFunc(cases, func(c *golden.Case) bool { return c.Name == name }),
			"there is no case %s",
			name,
		)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			h := &conformance.Host{Middleware: ms.middleware}
			outcome, err := h.Run(t.Context(), c.Request())
			require.NoError(t, err)
			if leaves[c.Name] != "" {
				require.NotEmpty(t, outcome.Refused, "what is left out is refused, not passed over")
				return
			}
			if *update {
				text, err := c.Update(outcome)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(ms.example, c.Name+".txtar"), text, 0o644))
				return
			}
			differences, err := c.Compare(outcome, true)
			require.NoError(t, err)
			for _, d := range differences {
				require.Fail(t, c.About, d.String())
			}
			require.Empty(t, c.Unused(outcome))
		})
	}
}

// readme checks that the README has a table row for each configuration key and names each
// hook.
func (ms modules) readme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(ms.example, "README.md"))
	require.NoError(t, err)
	m, err := ms.load(t.Context(), ms.example+".wasm")
	require.NoError(t, err)
	defer m.Close()
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(m.Info().Description.ConfigSchema, &schema))
	require.NotEmpty(t, schema.Properties)
	for key := range schema.Properties {
		require.Contains(t, string(text), "\n| `"+key+"` |")
	}
	for _, hook := range m.Info().Hooks {
		if hook != "configure" {
			require.Contains(t, string(text), "`"+string(hook)+"`")
		}
	}
}

// modules loads the modules of an example's conversations in one language.
type modules struct {
	t        *testing.T
	loader   *module.Loader
	example  string
	language string
}

// middleware builds, loads and configures the example that m.Module names, and returns it.
func (ms modules) middleware(ctx context.Context, m *wire.Middleware) (hook.Middleware, error) {
	loaded, err := ms.load(ctx, m.Module)
	if err != nil {
		return nil, err
	}
	defer loaded.Close() // the configured entry does not need it
	return conformance.Configure(ctx, loaded, m)
}

func (ms modules) load(ctx context.Context, file string) (*module.Module, error) {
	name := strings.TrimSuffix(file, ".wasm")
	if ms.language == "typescript" {
		return ms.loader.Load(ctx, filepath.Join(name, name+".ts"), policy.Limits{})
	}
	source := path.Join(folder, name)
	if ms.language == tinyGo && name == ms.example { // other modules are built with Go
		return ms.loader.LoadBytes(ctx, file, guestbuild.TinyGo(ms.t, source), policy.Limits{})
	}
	if slices.Contains(guestbuild.Languages, ms.language) {
		return ms.loader.LoadBytes(ctx, file, guestbuild.Foreign(ms.t, path.Join(source, ms.language)), policy.Limits{})
	}
	if ms.language == guestbuild.Extism {
		source = path.Join(source, guestbuild.Extism)
	}
	wasm := guestbuild.Build(ms.t, source)
	return ms.loader.LoadBytes(ctx, file, wasm, policy.Limits{})
}
