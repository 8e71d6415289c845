package module

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/npmtest"
)

// goPlugin builds testdata/extism/go.
func goPlugin(t testing.TB) []byte {
	t.Helper()
	return guestbuild.Build(t, "testdata/extism/go")
}

// assemblyScriptPlugin builds testdata/extism/assemblyscript.
func assemblyScriptPlugin(t testing.TB) []byte {
	t.Helper()
	compiler := npmtest.Bin(t, "asc")
	out := filepath.Join(t.TempDir(), "assemblyscript.wasm")
	cmd := exec.CommandContext(t.Context(), compiler, "plugin.ts", "--path",
		filepath.Join(npmtest.Folder(t), "node_modules"), "--outFile", out, "--use", "abort=plugin/abort")
	cmd.Dir = filepath.Join(plugins, "assemblyscript")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	b, err := os.ReadFile(out)
	require.NoError(t, err)
	return b
}

// TestExtismGuests checks that plug-ins built with Extism's SDKs for Go and AssemblyScript behave
// the same in this host and in Extism's Go SDK. It also checks that they can be middlewares.
func TestExtismGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles many modules")
	}
	t.Parallel()
	l := newLoader(t)
	long := strings.Repeat("Ünïcödé and the quick brown fox. ", 3000) // 100 KB
	calls := []pluginCall{
		{"echo", ""}, {"echo", "a"}, {"echo", "12345678"}, {"echo", "123456789"}, {"echo", long}, {"echo", "\x00\xff"},
		{"vowels", "hello world"}, {"vowels", long}, {"vowels", ""}, {"forget", ""}, {"vowels", "a"},
		{"setting", "color"}, {"setting", "missing"}, {"setting", "empty"}, {"setting", "ünïcödé"},
		{"tell", "information"}, {"tell", ""}, {"tell", long[:1000]},
		{"before_agent", "{}"}, {"before_agent", "{}"},
		{"broken", "wheel"},
	}
	config := map[string]string{"color": "blue", "empty": "", "ünïcödé": "ja: <&>", "instruction": "Be brief."}
	for name, build := range map[string]func(testing.TB) []byte{"go": goPlugin, "assemblyscript": assemblyScriptPlugin} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wasm := build(t)
			want, got := callSDK(t, wasm, config, calls), callHere(t, l, wasm, config, calls)
			require.Len(t, want, len(calls))
			for i := range want {
				require.Equal(t, want[i], got[i], "%s(%.20q)", calls[i].export, calls[i].input)
			}
			require.True(t, want[len(want)-1].Trapped)

			m, err := l.LoadBytes(t.Context(), name+".wasm", wasm, policy.Limits{})
			require.NoError(t, err)
			defer m.Close()
			text, err := json.Marshal(config)
			require.NoError(t, err)
			r := open(t, configure(t, m, string(text)))
			for _, want := range []string{"Be brief. 2", "Be brief. 4"} {
				s, err := r.beforeAgent(t)
				require.NoError(t, err)
				require.Equal(t, want, s.Instruction)
			}
		})
	}
}
