package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// numbers matches a fuel count or a size in the table, and the end of a code span before it. These
// numbers depend on the version of Go.
var numbers = regexp.MustCompile("`? [0-9.]+(k|M| KiB| MiB)?")

// TestFresh checks that the table has the names, descriptions, hooks and grants of the examples. It
// ignores measurements.
func TestFresh(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles every example")
	}
	t.Parallel()
	root, err := guestbuild.Root()
	require.NoError(t, err)
	loader, err := module.NewLoader(t.Context(), &module.LoaderOptions{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close(context.Background())) })
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(folder), "README.md"))
	require.NoError(t, err)
	_, table, _, err := cut(string(page))
	require.NoError(t, err)
	want, err := write(t.Context(), loader, root, false)
	require.NoError(t, err)
	require.Equal(t, plain(want), plain(table), "%s/README.md is stale: make table", folder)
}

func plain(table string) string { return numbers.ReplaceAllString(table, "`") }

func TestAbout(t *testing.T) {
	t.Parallel()
	for readme, want := range map[string]string{
		"# a\n\nDoes this.\n\n## When":            "Does this",
		"# a\n\nDoes\nthis | that. And more.\n\n": `Does this \| that`,
		"# a\n\nShows this:\n\n```\nit\n```\n":    "Shows this",
	} {
		require.Equal(t, want, about(readme))
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{999: "999", 1234: "1.23k", 123_456: "123k", 12_345_678: "12.3M"} {
		require.Equal(t, want, count(n))
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	before, table, after, err := cut("a\n" + begin + "b\n" + end + "c\n")
	require.NoError(t, err)
	require.Equal(t, []string{"a\n" + begin, "b\n", end + "c\n"}, []string{before, table, after})
	_, _, _, err = cut("a\n" + end + begin)
	require.ErrorContains(t, err, "README.md needs the lines")
}
