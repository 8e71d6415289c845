package sdktest

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/toolchain"
)

// readmes holds the READMEs of the SDKs. Their code blocks become the files of a module.
var readmes = map[string]struct {
	files map[string]string // maps a block's language to its file
	setup func(t *testing.T, sdk string, p *toolchain.Project)
}{
	"c": {map[string]string{"c": "guard.c"}, func(t *testing.T, sdk string, p *toolchain.Project) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(sdk, "agent_middleware.h"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(p.Dir, "agent_middleware.h"), b, 0o644))
	}},
	"rust": {
		map[string]string{"toml": "Cargo.toml", "rust": "src/lib.rs"},
		func(t *testing.T, sdk string, p *toolchain.Project) {
			t.Helper()
			file := filepath.Join(p.Dir, "Cargo.toml")
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			b = regexp.MustCompile(`(?m)^agent-middleware = .*$`).
				ReplaceAll(b, []byte(`agent-middleware = { path = "`+filepath.ToSlash(sdk)+`" }`))
			b = append([]byte("[package]\nname = \"guard\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n"), b...)
			require.NoError(t, os.WriteFile(file, b, 0o644))
		},
	},
	"assemblyscript": {
		map[string]string{"ts": "assembly/index.ts", "json": "asconfig.json"},
		func(t *testing.T, sdk string, p *toolchain.Project) {
			t.Helper()
			node, err := npmtest.Install(filepath.Join(sdk, "testdata", "npm"), filepath.Join(sdk, "..", "..", "build", "npm"))
			if err != nil {
				skip(t, err)
			}
			p.Node = node
			scope := filepath.Join(p.Dir, "node_modules", "@agent-runner")
			require.NoError(t, os.MkdirAll(scope, 0o755))
			require.NoError(t, os.Symlink(sdk, filepath.Join(scope, "middleware-assemblyscript")))
		},
	},
}

func skip(t *testing.T, why error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skipf("SKIPPED: %v", why)
}

// TestReadmes checks that the first example of each README builds as an author would build it, and
// that its gate decides as expected.
func TestReadmes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it needs toolchains")
	}
	for language, r := range readmes {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			sdk, err := filepath.Abs("../../guest-sdk/" + language)
			require.NoError(t, err)
			text, err := os.ReadFile(filepath.Join(sdk, "README.md"))
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "guard")
			for block, name := range r.files {
				code := regexp.MustCompile("(?s)```" + block + "\n(.*?)```").FindSubmatch(text)
				require.NotNil(t, code, "a block of %s", block)
				file := filepath.Join(dir, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, code[1], 0o644))
			}
			p := &toolchain.Project{Dir: dir}
			r.setup(t, sdk, p)
			found, err := toolchain.Find(dir)
			require.NoError(t, err)
			found.Node = p.Node
			var missing *toolchain.MissingError
			if err = found.Build(t.Context(), found.Output()); err != nil && errors.As(err, &missing) {
				skip(t, err)
			}
			require.NoError(t, err)
			wasm, err := os.ReadFile(found.Output())
			require.NoError(t, err)
			h, err := New(t.Context(), wasm)
			require.NoError(t, err)
			for tool, want := range map[string]string{
				"shell": `{"decision":"deny","message":"no shell here"}`, "time": `{"decision":"allow"}`,
			} {
				output, ok, err := h.Hook(
					t.Context(),
					"gate_tool",
					`{`+envelope+`,"call":{"id":"c","name":"`+tool+`","arguments":"{}"},"tool":{"name":"`+tool+`"}}`,
				)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, want, output)
			}
		})
	}
}
