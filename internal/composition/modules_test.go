package composition

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// modules builds and loads wasm-puppet.
func modules(t *testing.T) *Modules {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	loader, err := module.NewLoader(
		t.Context(),
		&module.LoaderOptions{CacheDir: filepath.Join(cache, "agent-runner", "test")},
	)
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
