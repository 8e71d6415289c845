package toolchain_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/toolchain"
)

func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "guard")
	for _, name := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	return dir
}

func TestFind(t *testing.T) {
	t.Parallel()
	for want, files := range map[string][]string{
		"Rust":           {"Cargo.toml", "src/lib.rs"},
		"AssemblyScript": {"package.json", "assembly/index.ts"},
		"Go":             {"main.go", "main_test.go"},
		"C":              {"guard.c", "other.c"},
		"TypeScript":     {"guard.ts", "types.d.ts"},
		"JavaScript":     {"only.js"},
	} {
		p, err := toolchain.Find(folder(t, files...))
		require.NoError(t, err)
		require.Equal(t, want, p.Language.Name)
		require.Equal(t, "guard.wasm", filepath.Base(p.Output()))
	}
	_, err := toolchain.Find(folder(t, "README.md"))
	require.ErrorContains(t, err, "there is nothing to build")
	_, err = toolchain.Find(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "there is no such folder")
}

// TestMissing checks that the error for a missing toolchain names it and how to install it. For
// Rust it checks only the form of the error, because a compiler in /usr/bin is found even if PATH
// is empty.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for file, want := range map[string]string{
		"guard.c":           "clang is not on this machine; install it: on Debian and Ubuntu: apt-get install clang lld",
		"main.go":           "go is not on this machine; install it: https://go.dev/dl",
		"assembly/index.ts": "npm is not on this machine; install it: https://nodejs.org",
		"Cargo.toml":        "is not on this machine; install it:",
	} {
		p, err := toolchain.Find(folder(t, file))
		require.NoError(t, err)
		err = p.Build(t.Context(), p.Output())
		var missing *toolchain.MissingError
		require.ErrorAs(t, err, &missing, file)
		require.ErrorContains(t, err, want)
	}
}

// TestMissingTinyGo checks that TinyGo is required in addition to Go.
func TestMissingTinyGo(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	t.Setenv("PATH", bin)
	p, err := toolchain.Find(folder(t, "main.go", "go.mod"))
	require.NoError(t, err)
	p.TinyGo = "tinygo"
	err = p.Build(t.Context(), p.Output())
	var missing *toolchain.MissingError
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(
		t,
		err,
		"tinygo is not on this machine; install it: https://tinygo.org/getting-started/install, version 0.41 or later",
	)
}

// TestTinyGoDirective checks that a Go file can ask for TinyGo, before its package clause.
func TestTinyGoDirective(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	t.Setenv("PATH", bin)
	dir := folder(t, "main.go", "go.mod", "other.go")
	other := filepath.Join(dir, "other.go")
	require.NoError(t, os.WriteFile(other, []byte("package main\n\n//agentrunner:tinygo\n"), 0o644))
	p, err := toolchain.Find(dir)
	require.NoError(t, err)
	require.Equal(t, "Go", p.What())
	require.NoError(
		t,
		os.WriteFile(other, []byte("// Command x does it.\n\n//agentrunner:tinygo\n\npackage main\n"), 0o644),
	)
	p, err = toolchain.Find(dir)
	require.NoError(t, err)
	require.Equal(t, "Go (TinyGo)", p.What())
	require.ErrorContains(t, p.Build(t.Context(), p.Output()),
		"version 0.41 or later; or remove the line //agentrunner:tinygo from other.go, to build with Go")
}

// TestTinyGoErrors checks that a build passes the expected arguments to TinyGo and that its error
// has TinyGo's output. It is not parallel, because a file that was just written cannot be executed
// while another test forks.
func TestTinyGoErrors(t *testing.T) {
	p, err := toolchain.Find(folder(t, "main.go", "go.mod", "go.sum"))
	require.NoError(t, err)
	p.TinyGo = filepath.Join(t.TempDir(), "tinygo")
	require.NoError(t, os.WriteFile(p.TinyGo, []byte("#!/bin/sh\necho \"$@\"; exit 1\n"), 0o755))
	out := filepath.Join(t.TempDir(), "guard.wasm")
	require.ErrorContains(t, p.Build(t.Context(), out),
		"tinygo says:\nbuild -target=wasip1 -buildmode=c-shared -scheduler=none -gc=leaking -opt=2 "+
			"-ldflags=-extldflags '-z stack-size=1048576 --strip-debug' -o "+out+" .")
}

// TestNoWasmOpt checks that a build does not run a wasm-opt in PATH. clang runs wasm-opt when it
// links, and wasm-opt rejects features that its flags do not enable.
func TestNoWasmOpt(t *testing.T) {
	if _, err := exec.LookPath("clang"); err != nil {
		t.Skip("there is no clang")
	}
	bin := t.TempDir()
	require.NoError(
		t,
		os.WriteFile(filepath.Join(bin, "wasm-opt"), []byte("#!/bin/sh\necho refused >&2; exit 1\n"), 0o755),
	)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	dir := folder(t, "guard.c")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "guard.c"), []byte("int seven(void) { return 7; }\n"), 0o644))
	p, err := toolchain.Find(dir)
	require.NoError(t, err)
	require.NoError(t, p.Build(t.Context(), p.Output()))
	require.FileExists(t, p.Output())
}

// TestNamesOfFunctions checks that a module contains the function names of the sources unless it is
// stripped.
func TestNamesOfFunctions(t *testing.T) {
	t.Parallel()
	for command, sources := range map[string]map[string]string{
		"go":    {"go.mod": "module guard\n", "main.go": "package main\n\nfunc main() { println(theFunction()) }\n\n//go:noinline\nfunc theFunction() int { return 7 }\n"},
		"clang": {"guard.c": "__attribute__((noinline)) static int theFunction(int n) { return n * n; }\n__attribute__((export_name(\"hook\"))) int hook(int n) { return theFunction(n) + theFunction(n + 1); }\n"},
	} {
		if _, err := exec.LookPath(command); err != nil {
			continue // Go is always installed
		}
		dir := folder(t)
		for name, text := range sources {
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		p, err := toolchain.Find(dir)
		require.NoError(t, err)
		var found [2]int // occurrences; Go's runtime has names for its own functions, too
		for i := range found {
			p.Strip = i == 0
			require.NoError(t, p.Build(t.Context(), p.Output()))
			b, err := os.ReadFile(p.Output())
			require.NoError(t, err)
			found[i] = bytes.Count(b, []byte("theFunction"))
		}
		require.Equal(t, 1, found[1]-found[0], command)
	}
}

// TestNoGoModule checks that the error for a folder without a go.mod says how to create one.
func TestNoGoModule(t *testing.T) {
	t.Parallel()
	p, err := toolchain.Find(folder(t, "main.go"))
	require.NoError(t, err)
	err = p.Build(t.Context(), p.Output())
	require.ErrorContains(
		t,
		err,
		"there is no go.mod in the folder or above it; agent-runner module new NAME --lang go creates a project with one",
	)
}

// TestBuildIsCanceled checks that a canceled build reports the cancellation instead of the
// compiler's exit status.
func TestBuildIsCanceled(t *testing.T) {
	t.Parallel()
	p, err := toolchain.Find(folder(t, "main.go", "go.mod"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Build(ctx, p.Output()), context.Canceled)
}

// TestCompileError checks that the error contains the compiler's output.
func TestCompileError(t *testing.T) {
	t.Parallel()
	dir := folder(t, "guard.c")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "guard.c"), []byte("int nonsense = ;"), 0o644))
	p, err := toolchain.Find(dir)
	require.NoError(t, err)
	err = p.Build(t.Context(), p.Output())
	var missing *toolchain.MissingError
	if os.Getenv("CI") != "true" && err != nil && errors.As(err, &missing) {
		t.Skipf("SKIPPED: %v", err)
	}
	require.ErrorContains(t, err, "clang says:\nguard.c:1:16: error: expected expression")
}
