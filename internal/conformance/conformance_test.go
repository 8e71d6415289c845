package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/chain"
	"github.com/agent-runner/agent-runner/host/module"
)

var update = flag.Bool("update", false, "write what came out into the cases that expect something else")

const root = "../.."

// TestCases runs every golden case with real modules in the real host.
func TestCases(t *testing.T) {
	cases, err := Load(filepath.Join(root, "testdata", "cases"))
	require.NoError(t, err)
	suite, err := Build(root, cases)
	require.NoError(t, err)
	ms := loadModules(t, suite)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if *update {
				requireKnown(t, c)
				require.NoError(t, c.Update(outcome(t, c, suite, ms)))
				return
			}
			requireExpected(t, c, suite, ms)
		})
	}
}

// TestCasesOfExtism runs every golden case with its modules built as plug-ins of
// Extism's.
func TestCasesOfExtism(t *testing.T) {
	cases, err := Load(filepath.Join(root, "testdata", "cases"))
	require.NoError(t, err)
	suite, err := BuildExtism(root, cases)
	require.NoError(t, err)
	ms := loadModules(t, suite)
	require.Equal(t, "extism", ms.suite.Info().Transport)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			requireExpected(t, c, suite, ms)
		})
	}
}

func outcome(t *testing.T, c *Case, suite *Suite, ms Middlewares) []string {
	t.Helper()
	o, err := c.Run(t.Context(), suite, ms)
	require.NoError(t, err)
	got, err := c.Got(o)
	require.NoError(t, err)
	return got
}

func requireExpected(t *testing.T, c *Case, suite *Suite, ms Middlewares) {
	t.Helper()
	got := outcome(t, c, suite, ms)
	for i, s := range c.Expect {
		if !s.Same(got[i]) {
			require.Equal(t, s.Text, got[i], "%s\n%s %s", c.About, s.Kind, s.Arg)
		}
	}
}

// modules are the host's: loaded once, configured for each entry.
type modules struct {
	t      *testing.T
	loader *module.Loader
	suite  *module.Module
}

func loadModules(t *testing.T, s *Suite) *modules {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	loader, err := module.NewLoader(context.Background(), &module.LoaderOptions{CacheDir: filepath.Join(cache, "agent-runner", "test")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close(context.Background())) })
	m, err := loader.Load(context.Background(), s.Path, module.Limits{})
	require.NoError(t, err)
	return &modules{t, loader, m}
}

func (ms *modules) Go(ctx context.Context, entry string, config json.RawMessage, grants []string) (chain.Middleware, error) {
	granted, err := module.ParseGrants(grants)
	if err != nil {
		return nil, err
	}
	return ms.suite.Configure(ctx, entry, config, granted)
}

func (ms *modules) Wasm(ctx context.Context, entry, file string, config json.RawMessage, grants []string) (chain.Middleware, error) {
	granted, err := module.ParseGrants(grants)
	if err != nil {
		return nil, err
	}
	m, err := ms.loader.Load(ctx, filepath.Join(root, "testdata", "modules", file), module.Limits{})
	if err != nil {
		return nil, err
	}
	return m.Configure(ctx, entry, config, granted)
}
