package composition

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// modules builds and loads wasm-puppet.
func modules(t *testing.T) *Modules {
	t.Helper()
	loader, err := module.NewLoader(t.Context(), &module.LoaderOptions{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close(context.Background())) })
	m, err := loader.LoadBytes(
		t.Context(),
		"wasm-puppet.wasm",
		guestbuild.Build(t, "internal/composition/wasm-puppet"),
		policy.Limits{},
	)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	ms, err := NewModules(m)
	require.NoError(t, err)
	return ms
}
