package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("a/a.go", `package a
type T[K any] struct{ Field int }
type t struct{}
func (*T[K]) M() {}
func (t) M() {}
func F() {}
const A, b = 1, 2
var V int
`)
	write("a/guest.go", "//go:build wasip1\n\npackage a\ntype Guest int\n")
	write("a/a_test.go", "package a\nfunc TestX() {}\n")
	write("a/internal/b/b.go", "package b\nfunc F() {}\n")
	write("cmd/main.go", "package main\nfunc F() {}\n")

	found, err := count(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]int{filepath.ToSlash(filepath.Join(dir, "a")): 5}, found)
}

func TestCompare(t *testing.T) {
	t.Parallel()
	allowed := parse(table(map[string]int{"a": 2, "b": 3}))
	require.NoError(t, compare(allowed, map[string]int{"a": 2, "b": 3}, false))
	require.ErrorContains(t, compare(allowed, map[string]int{"a": 3, "b": 2}, true), "a exports 3 identifiers, at most 2")
	require.ErrorContains(t, compare(allowed, map[string]int{"a": 2, "c": 1}, true), "c exports 1")
	require.ErrorContains(t, compare(allowed, map[string]int{"a": 1, "b": 3}, false), "-update")
	require.NoError(t, compare(allowed, map[string]int{"a": 1}, true), "numbers shrink")
}
