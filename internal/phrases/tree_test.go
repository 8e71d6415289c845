package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root       = "../.."
	modulePath = "github.com/agent-runner/agent-runner/"
)

// TestContributingListsPackages checks that CONTRIBUTING.md lists each internal package once, and that
// each package imports only packages above it in the list.
func TestContributingListsPackages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	rows := map[string]int{}
	for i, m := range regexp.MustCompile("(?m)^\\| `([a-z/-]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		require.NotContains(t, rows, m[1], "listed twice")
		require.DirExists(t, filepath.Join(root, m[1]))
		rows[m[1]] = i
	}
	for pkg, imports := range packages(t) {
		row, ok := rowOf(rows, pkg)
		if !ok {
			require.False(t, strings.HasPrefix(pkg, "internal/"), "CONTRIBUTING.md does not list %s", pkg)
			continue
		}
		for _, imported := range imports {
			above, listed := rowOf(rows, imported)
			require.True(t, !listed || above <= row, "%s imports %s, which CONTRIBUTING.md lists below it", pkg, imported)
		}
	}
}

// rowOf returns the position of a package in the list, and whether it has one. Public packages may
// share the row of a folder above them.
func rowOf(rows map[string]int, pkg string) (int, bool) {
	if row, ok := rows[pkg]; ok || strings.HasPrefix(pkg, "internal/") {
		return row, ok
	}
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if row, ok := rows[dir+"/"]; ok {
			return row, ok
		}
	}
	return 0, false
}

// packages maps the folder of each package in the project's Go module to the project's packages that
// its non-test files import.
func packages(t *testing.T) map[string][]string {
	out := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && file != root {
				return filepath.SkipDir
			}
			if name := d.Name(); name == "testdata" || name == "node_modules" || name == "build" ||
				strings.HasPrefix(name, ".") && name != ".." {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		pkg, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg = filepath.ToSlash(pkg)
		imports := out[pkg]
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(name, modulePath); ok {
				imports = append(imports, own)
			}
		}
		out[pkg] = imports
		return nil
	})
	require.NoError(t, err)
	return out
}

// TestContributingNamesFiles checks that the Go files that CONTRIBUTING.md names exist.
func TestContributingNamesFiles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("`([a-z_/-]+/[a-z_]+\\.go)`").FindAllStringSubmatch(string(text), -1) {
		require.FileExists(t, filepath.Join(root, m[1]))
	}
}

// TestDocsIndex checks that docs/README.md links each page of docs.
func TestDocsIndex(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs/README.md"))
	require.NoError(t, err)
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	require.NoError(t, err)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			require.Contains(t, string(index), "]("+name+")")
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(index), -1) {
		require.FileExists(t, filepath.Join(root, "docs", m[1]))
	}
}
