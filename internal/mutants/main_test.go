package main

import (
	"go/format"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaultsFit holds the faults to the sources: each still replaces
// something, and what comes out is Go. That cases catch them, "make mutants" shows.
func TestFaultsFit(t *testing.T) {
	t.Parallel()
	l := &laboratory{root: "../.."}
	names := map[string]bool{}
	for _, f := range faults {
		b, err := l.apply(&f)
		require.NoError(t, err, f.name)
		_, err = format.Source(b)
		require.NoError(t, err, f.name)
		require.FileExists(t, filepath.Join(l.root, "testdata", "cases", f.by+".txtar"), f.name)
		require.False(t, names[f.name], "two faults are named %q", f.name)
		names[f.name] = true
	}
	require.GreaterOrEqual(t, len(names), 20)
}

func TestFailed(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a-1", "b-2"}, failed("--- FAIL: TestCases (1.00s)\n    --- FAIL: TestCases/b-2 (0.01s)\n    --- FAIL: TestCases/a-1 (0.01s)\n"))
	require.Equal(t, []string{"a-1"}, failed("panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestCases (1m0s)\n\t\tTestCases/a-1 (1m0s)\n"))
	require.Empty(t, failed("ok\nPASS\n"))
}
