package main

import (
	"go/format"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaultsFit checks that each fault still matches its source, and that the result is valid Go.
// "make mutants" checks that the cases detect the faults.
func TestFaultsFit(t *testing.T) {
	t.Parallel()
	l := &workspace{root: "../.."}
	names := map[string]bool{}
	for _, f := range faults {
		_, b, err := l.apply(&f)
		require.NoError(t, err, f.name)
		_, err = format.Source(b)
		require.NoError(t, err, f.name)
		require.FileExists(t, filepath.Join(l.root, "tck", "cases", f.by+".txtar"), f.name)
		require.False(t, names[f.name], "two faults are named %q", f.name)
		names[f.name] = true
	}
	require.GreaterOrEqual(t, len(names), 20)
}

// TestFind checks that matches ignore formatting and comments.
func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(
		t,
		os.WriteFile(
			filepath.Join(dir, "a.go"),
			[]byte("package a\n\nfunc f() int {\n\treturn 1 + // one\n\t\t2\n}\n\nfunc g() int { return 3 }\n"),
			0o600,
		),
	)
	require.NoError(
		t,
		os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package a\n\nfunc h() int { return 3 }\n"), 0o600),
	)
	p, err := find(dir, "return 1+2")
	require.NoError(t, err)
	require.Equal(
		t,
		"package a\n\nfunc f() int {\n\treturn 4\n}\n\nfunc g() int { return 3 }\n",
		string(p.replaced(" return 4 ")),
	)
	_, err = find(dir, "return 3 }")
	require.NoError(t, err)
	for _, text := range []string{"return 5", "return"} {
		_, err = find(dir, text)
		require.ErrorContains(t, err, "want once")
	}
}

func TestFailed(t *testing.T) {
	t.Parallel()
	require.Equal(
		t,
		[]string{"a-1", "b-2"},
		failed("--- FAIL: TestCases (1.00s)\n    --- FAIL: TestCases/b-2 (0.01s)\n    --- FAIL: TestCases/a-1 (0.01s)\n"),
	)
	require.Equal(
		t,
		[]string{"a-1"},
		failed("panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestCases (1m0s)\n\t\tTestCases/a-1 (1m0s)\n"),
	)
	require.Empty(t, failed("ok\nPASS\n"))
}
