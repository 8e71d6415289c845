package npmtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBin(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mcp-server-everything", "mcp-server-filesystem"} {
		bin := Bin(t, name)
		info, err := os.Stat(bin)
		require.NoError(t, err)
		require.True(t, info.Mode().IsRegular())
		require.NotZero(t, info.Mode()&0o111, "%s cannot be executed", bin)
	}
}

// TestInstallAtOnce checks that concurrent calls of Install succeed and return the same directory,
// and that a failed installation is tried again.
func TestInstallAtOnce(t *testing.T) {
	t.Parallel()
	Bin(t, "mcp-server-everything") // skips the test without npm
	from, into := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(text), 0o644))
	}
	write("package.json", `{"name":"empty","version":"1.0.0"}`)
	write(
		"package-lock.json",
		`{"name":"empty","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"empty","version":"1.0.0"}}}`,
	)
	dirs := make([]string, 4)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() { dirs[i], errs[i] = Install(from, into) })
	}
	wg.Wait()
	for i := range dirs {
		require.NoError(t, errs[i])
		require.Equal(t, dirs[0], dirs[i])
	}

	write("package-lock.json", `{`)
	_, err := Install(from, into)
	require.ErrorContains(t, err, "npm ci: ")
	_, err = Install(from, into)
	require.ErrorContains(t, err, "npm ci: ", "what failed is tried again")
	_, err = Install(t.TempDir(), into)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestLockIsExact checks that the lock files have exact versions with SHA-512 digests, from
// registry.npmjs.org.
func TestLockIsExact(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"testdata/npm", "cmd/agent-runner/testdata/npm"} {
		lockIsExact(t, filepath.Join("..", "..", filepath.FromSlash(dir)))
	}
}

func lockIsExact(t *testing.T, dir string) {
	var pkg struct {
		Dependencies map[string]string
	}
	read(t, filepath.Join(dir, "package.json"), &pkg)
	require.NotEmpty(t, pkg.Dependencies)
	for name, version := range pkg.Dependencies {
		require.Regexp(t, regexp.MustCompile(`^\d+\.\d+\.\d+$`), version, name)
	}
	var lock struct {
		Packages map[string]struct{ Version, Resolved, Integrity string }
	}
	read(t, filepath.Join(dir, "package-lock.json"), &lock)
	for name, p := range lock.Packages {
		if name == "" {
			continue
		}
		require.True(t, strings.HasPrefix(p.Integrity, "sha512-"), name)
		require.True(t, p.Resolved == "" || strings.HasPrefix(p.Resolved, "https://registry.npmjs.org/"), p.Resolved)
	}
	for name, version := range pkg.Dependencies {
		require.Equal(t, version, lock.Packages["node_modules/"+name].Version, name)
	}
}

func read(t *testing.T, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}
