package module

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// BenchmarkScript compares a Go and a TypeScript middleware that read a whole conversation. Each
// has a clean instance in each run.
func BenchmarkScript(b *testing.B) {
	const example = "examples/wasm-middlewares/patch-tool-calls"
	l, err := NewLoader(b.Context(), nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, l.Close(context.Background())) })
	script, err := os.ReadFile("../../" + example + "/patch-tool-calls.ts")
	require.NoError(b, err)
	for name, bytes := range map[string][]byte{"go.wasm": guestbuild.Build(b, example), "typescript.ts": script} {
		m, err := l.LoadBytes(b.Context(), name, bytes, policy.Limits{})
		require.NoError(b, err)
		mw, err := Configure(b.Context(), m, "patch", nil, policy.Grants{})
		require.NoError(b, err)
		c, err := chain.New(hook.Entry{Name: "patch", Middleware: mw})
		require.NoError(b, err)
		language, _, _ := strings.Cut(name, ".")
		for size, text := range map[string]string{"1KB": strings.Repeat("x", 100), "100KB": strings.Repeat("x", 10_000)} {
			messages := conversation(text, text, text, text, text, text, text, text, text, text)
			b.Run(language+"/"+size, func(b *testing.B) {
				for b.Loop() {
					r, err := c.Open(b.Context(), abi.Run{ID: "run-1"}, &fakeHost{}, local.New())
					require.NoError(b, err)
					_, err = r.BeforeModelRewriteState(b.Context(), chain.Draft{Messages: messages})
					require.NoError(b, err)
					r.Close()
				}
			})
		}
		mw.Close()
		m.Close()
	}
}
