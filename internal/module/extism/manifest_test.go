package extism

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"wasm":[{"path":"m.wasm","hash":"00"}],"memory":{"max_pages":4096},"timeout_ms":1,"config":{"a":"b"}}`))
	f.Add([]byte(`{"wasm":[null],"allowed_hosts":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, _, err := ParseManifest(b)
		if err != nil {
			return
		}
		require.Len(t, m.Wasm, 1)
		limits, _ := LowerLimits(policy.Limits{}, &m)
		require.LessOrEqual(t, limits.HookTime, sandbox.DefaultHookTime)
		require.LessOrEqual(t, limits.MemoryBytes, int64(sandbox.DefaultMemoryBytes))
	})
}
