package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdentifiers(t *testing.T) {
	t.Parallel()
	checked, files := packagesOf{}, token.NewFileSet()
	for _, p := range [][2]string{
		{"errors", `package errors; type List []int; func (List) Len() int`},
		{module + "/internal/b", `package b; type B struct{}; func (*B) M() {}; func (B) m() {}; type I interface { Go() }`},
		{module + "/c", `package c; type C struct{}; func (C) Public() {}`},
		{"example.com/d", `package d; type D struct{}; func (D) Other() {}`},
		{module + "/a", `package a
			import ("errors"; "example.com/d"; "` + module + `/internal/b"; "` + module + `/c")
			type T[K any] struct{ Field K }
			type t struct{}
			func (*T[K]) M() {}
			func (t) M() {}
			func F() {}
			const A, x = 1, 2
			var V int
			type Alias = b.B
			type Interface = b.I
			type Embedding struct { *b.B; c.C; d.D; b.I }
			type Hidden struct { t }
			type Standard = errors.List`},
	} {
		file, err := parser.ParseFile(files, "x.go", p[1], 0)
		require.NoError(t, err)
		conf := types.Config{Importer: checked, IgnoreFuncBodies: true}
		checked[p[0]], err = conf.Check(p[0], files, []*ast.File{file}, nil)
		require.NoError(t, err)
	}
	require.Equal(t, []string{
		"A", "Alias", "Alias.M", "Embedding", "Embedding.Go", "Embedding.M", "Embedding.Other", "F", "Hidden", "Hidden.M",
		"Interface", "Standard", "T", "T.M", "V",
	}, identifiers(checked[module+"/a"]))
}

// packagesOf imports packages by path.
type packagesOf map[string]*types.Package

func (p packagesOf) Import(path string) (*types.Package, error) { return p[path], nil }

func TestPublic(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]bool{
		module + "/host":              true,
		module + "/adapters/eino":     true,
		module + "/internal/exported": false,
		module + "/host/internal/x":   false,
		module + "/guest-sdk/go/json": false,
		"example.com/host":            false,
	} {
		require.Equal(t, want, public(pkg), pkg)
	}
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
