package module

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"

	sdk "github.com/extism/go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// BenchmarkExtism calls a Go plug-in that echoes its input. It measures Extism's SDK with a timeout
// and without one, and this host, which limits and meters the plug-in. Without a timeout, nothing
// can interrupt the SDK's call.
func BenchmarkExtism(b *testing.B) {
	wasm := goPlugin(b)
	sdkLogLevel()
	for _, size := range []int{0, 1 << 10, 100 << 10} {
		input := []byte(strings.Repeat("x", size))
		for name, timeout := range map[string]uint64{"sdk": 0, "sdk, timeout": 60_000} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				sdk.SetLogLevel(sdk.LogLevelOff)
				p, err := sdk.NewPlugin(b.Context(), sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: wasm}}, Timeout: timeout},
					sdk.PluginConfig{EnableWasi: true}, []sdk.HostFunction{sdkLocalAdd()})
				require.NoError(b, err)
				defer p.Close(context.Background())
				for b.Loop() {
					_, out, err := p.Call("echo", input)
					require.NoError(b, err)
					require.Len(b, out, size)
				}
			})
		}
		b.Run(fmt.Sprintf("here/%d", size), func(b *testing.B) {
			l, err := NewLoader(b.Context(), nil)
			require.NoError(b, err)
			defer l.Close(context.Background())
			m, err := l.LoadBytes(b.Context(), "go.wasm", wasm, policy.Limits{})
			require.NoError(b, err)
			defer m.Close()
			mw, err := Configure(b.Context(), m, "plugin", nil, policy.Grants{})
			require.NoError(b, err)
			defer mw.Close()
			s := &session{mw: mw, entry: "plugin", run: "run-1", stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}
			defer s.Close()
			for b.Loop() {
				inv := &invoke.Invocation{
					Hook:    "echo",
					Limits:  &m.limits,
					Config:  mw.config,
					Entered: true,
					Now:     1_767_225_600_000_000_000,
					Input:   input,
					Pending: input,
					LogFunc: func(int32, string) {},
				}
				w, err := s.acquire(b.Context(), inv)
				require.NoError(b, err)
				_, err = m.transport.Call(b.Context(), w.in, inv)
				require.NoError(b, err)
				w.inv = nil
				s.release(w, true)
				require.Len(b, inv.Output, size)
			}
		})
	}
}
