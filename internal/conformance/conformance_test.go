package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

var update = flag.Bool("update", false, "write what came out into the cases that expect something else")

const root = "../.."

// TestCases runs every golden case with real modules in the real host.
func TestCases(t *testing.T) {
	cases, err := Load(filepath.Join(root, "tck", "cases"))
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

// TestCasesOfExtism runs every golden case with its modules built as Extism plug-ins.
func TestCasesOfExtism(t *testing.T) {
	cases, err := Load(filepath.Join(root, "tck", "cases"))
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

// TestCasesOfJavaScript runs the golden cases whose modules all exist in TypeScript with those
// modules.
func TestCasesOfJavaScript(t *testing.T) {
	cases, err := Load(filepath.Join(root, "tck", "cases"))
	require.NoError(t, err)
	suite, err := Build(root, cases)
	require.NoError(t, err)
	ms := &scripts{dir: t.TempDir(), loader: newLoader(t)}
	n := 0
	for _, c := range cases {
		if !c.InTypeScript() {
			continue
		}
		n++
		for name, source := range c.Scripts {
			require.NoError(t, os.MkdirAll(filepath.Join(ms.dir, c.Name), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(ms.dir, c.Name, name+".ts"), source, 0o600))
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			requireExpected(t, c, suite, ms)
		})
	}
	require.Greater(t, n, 100)
}

// scripts provides the cases' modules in TypeScript.
type scripts struct {
	dir    string
	loader *module.Loader
}

func (ms *scripts) Go(
	ctx context.Context,
	entry string,
	config json.RawMessage,
	grants []string,
) (hook.Middleware, error) {
	var c struct {
		Use    string          `json:"use"`
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	if string(c.Config) == "null" {
		c.Config = nil
	}
	return configured(ctx, ms.loader, filepath.Join(ms.dir, filepath.FromSlash(c.Use)+".ts"), entry, c.Config, grants)
}

func (*scripts) Wasm(context.Context, string, string, json.RawMessage, []string) (hook.Middleware, error) {
	return nil, errors.New("the case has a module that is not there in TypeScript")
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

// modules provides the suite's module, loaded once and configured for each entry.
type modules struct {
	t      *testing.T
	loader *module.Loader
	suite  *module.Module
}

func loadModules(t *testing.T, s *Suite) *modules {
	t.Helper()
	loader := newLoader(t)
	m, err := loader.Load(context.Background(), s.Path, policy.Limits{})
	require.NoError(t, err)
	return &modules{t, loader, m}
}

func newLoader(t *testing.T) *module.Loader {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	loader, err := module.NewLoader(
		context.Background(),
		&module.LoaderOptions{CacheDir: filepath.Join(cache, "agent-runner", "test")},
	)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close(context.Background())) })
	return loader
}

func (ms *modules) Go(
	ctx context.Context,
	entry string,
	config json.RawMessage,
	grants []string,
) (hook.Middleware, error) {
	granted, err := policy.ParseGrants(grants)
	if err != nil {
		return nil, err
	}
	return ms.suite.Configure(ctx, entry, config, granted)
}

func (ms *modules) Wasm(
	ctx context.Context,
	entry, file string,
	config json.RawMessage,
	grants []string,
) (hook.Middleware, error) {
	return configured(ctx, ms.loader, filepath.Join(root, "testdata", "modules", file), entry, config, grants)
}

// configured loads a module and configures an entry. The entry remains valid after the module is
// closed.
func configured(
	ctx context.Context,
	loader *module.Loader,
	path, entry string,
	config json.RawMessage,
	grants []string,
) (hook.Middleware, error) {
	granted, err := policy.ParseGrants(grants)
	if err != nil {
		return nil, err
	}
	m, err := loader.Load(ctx, path, policy.Limits{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Configure(ctx, entry, config, granted)
}
