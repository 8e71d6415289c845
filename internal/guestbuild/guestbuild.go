// Package guestbuild builds guests into WebAssembly modules for tests and for make. It relies on
// Go's build cache, so building an unchanged guest takes about 10 ms. It builds guests in other
// languages with their toolchains. AssemblyScript's compiler and TinyGo need about 10 s, so their
// guests are cached by the content of the sources.
package guestbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/toolchain"
)

// Folder is the output folder of modules, relative to the repository's root.
const Folder = "build/wasm"

// TB is the part of testing.TB that Build needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Build builds the guest in a folder of the repository, such as "examples/wasm-middlewares/redact",
// once per process, and returns the module. Tests of several packages may build the same guest
// concurrently.
func Build(tb TB, folder string) []byte {
	tb.Helper()
	b, err := once(folder, func(root string) ([]byte, error) { return module(context.Background(), root, folder) })()
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return b
}

// Languages lists the folder names of guests in languages other than Go. A Go example may have a
// folder for each of them.
var Languages = []string{"c", "rust", "assemblyscript"}

// Path returns the path of a guest's module. For a guest in another language, the file name
// includes the language.
func Path(root, folder string) string {
	name := filepath.Base(folder)
	if l := language(folder); l == name {
		name = filepath.Base(filepath.Dir(folder)) + "-" + l
	} else if l != "" {
		name += "-" + l
	}
	return filepath.Join(root, filepath.FromSlash(Folder), name+".wasm")
}

// Extism is the folder name of Go guests that are Extism plug-ins. Each is a separate Go module, so
// that this one does not depend on Extism's SDK.
const Extism = "extism"

// language returns the language of a guest's folder, or "" for Go.
func language(folder string) string {
	for _, part := range strings.Split(filepath.ToSlash(folder), "/") {
		if part == Extism || slices.Contains(Languages, part) {
			return part
		}
	}
	return ""
}

// Module builds the guest in a folder below root and returns the module's path. It returns an error if the build
// fails or a toolchain is missing.
func Module(ctx context.Context, root, folder string) (string, error) {
	_, err := module(ctx, root, folder)
	return Path(root, folder), err
}

// module builds a guest and returns the module's bytes.
func module(ctx context.Context, root, folder string) ([]byte, error) {
	build := goModule
	if l := language(folder); l != "" && l != Extism {
		build = other
	}
	return locked(ctx, root, folder, Path(root, folder), build)
}

type builder = func(ctx context.Context, root, folder, path string) error

// locked builds and reads a guest under its lock, so that no process reads a file that another is
// writing.
func locked(ctx context.Context, root, folder, path string, build builder) ([]byte, error) {
	locks := filepath.Join(filepath.Dir(path), ".lock")
	if err := os.MkdirAll(locks, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(locks, filepath.Base(path)))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	defer unlock()
	if err := build(ctx, root, folder, path); err != nil {
		return nil, fmt.Errorf("build guest %s: %w", folder, err)
	}
	return os.ReadFile(path)
}

// goModule builds a guest in Go. The module does not contain the commit: otherwise each commit would
// change every guest, and tests would compile all of them again.
func goModule(ctx context.Context, root, folder, path string) error {
	build := exec.CommandContext(ctx, "go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w", "-o", path, ".")
	build.Dir = filepath.Join(root, filepath.FromSlash(folder))
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// other builds a guest in a language other than Go with the toolchains on the machine.
func other(ctx context.Context, root, folder, path string) error {
	p, err := toolchain.Find(filepath.Join(root, folder))
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(path), ".wasm")
	p.Cache = filepath.Join(root, "build", "rust", name)
	p.Strip = true // as modules in use, whose size and speed the benchmarks measure
	if p.Language.Name == "AssemblyScript" {
		p.Node, err = npmtest.Install(
			filepath.Join(root, "guest-sdk", "assemblyscript", "testdata", "npm"),
			filepath.Join(root, "build", "npm"),
		)
		if err != nil {
			return &toolchain.MissingError{Tool: "npm, or what it installs,", Install: err.Error()}
		}
		key := func() (string, error) { return assemblyScriptKey(root, folder, p.Node) }
		return cached(path, key, func() error { return p.Build(ctx, path) })
	}
	return p.Build(ctx, path)
}

// Foreign builds the guest in a folder in a language other than Go, once per process, and returns
// the module. If the toolchain is missing, it skips the test with the name of the missing tool, or
// fails the test if CI=true. With -short it skips the test.
func Foreign(tb Skipper, folder string) []byte {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("-short: it needs a toolchain")
	}
	b, err := once(folder, func(root string) ([]byte, error) { return module(context.Background(), root, folder) })()
	var missing *toolchain.MissingError
	if errors.As(err, &missing) && os.Getenv("CI") != "true" {
		tb.Skipf("SKIPPED: %v", err)
	}
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return b
}

var (
	builds   = map[string]func() ([]byte, error){}
	buildsMu sync.Mutex
)

// TinyGo builds the Go guest in a folder with TinyGo, once per process, and returns the module. It
// skips the test if TinyGo is missing, even if CI=true, and with -short.
func TinyGo(tb Skipper, folder string) []byte {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("-short: it needs a toolchain")
	}
	b, err := once("TinyGo's "+folder, func(root string) ([]byte, error) {
		_, b, err := TinyGoModule(context.Background(), root, folder)
		return b, err
	})()
	var missing *toolchain.MissingError
	if errors.As(err, &missing) {
		tb.Skipf("SKIPPED: %v, or, on Debian: make tinygo", err)
	}
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return b
}

// TinyGoModule builds the Go guest in a folder below root with TinyGo. It returns the module's path and the module,
// or an error if TinyGo is missing or the build fails.
func TinyGoModule(ctx context.Context, root, folder string) (path string, wasm []byte, err error) {
	path = strings.TrimSuffix(Path(root, folder), ".wasm") + "-tinygo.wasm"
	wasm, err = locked(ctx, root, folder, path, byTinyGo)
	return path, wasm, err
}

// byTinyGo builds a guest with TinyGo, unless it is cached.
func byTinyGo(ctx context.Context, root, folder, path string) error {
	p, err := toolchain.Find(filepath.Join(root, folder))
	if err != nil {
		return err
	}
	p.TinyGo = TinyGoCommand(root)
	if _, err := exec.LookPath(p.TinyGo); err != nil {
		return p.Build(ctx, path) // the error says how to install TinyGo
	}
	key := func() (string, error) { return tinyGoKey(ctx, root, folder, p.TinyGo) }
	return cached(path, key, func() error { return p.Build(ctx, path) })
}

// TinyGoCommand returns the path of the TinyGo that make installed in the repository. Without one,
// it returns "tinygo", for the one in PATH.
func TinyGoCommand(root string) string {
	made := filepath.Join(root, "build", "tools", "tinygo", "bin", "tinygo")
	if _, err := os.Stat(made); err == nil {
		return made
	}
	return "tinygo"
}

// once returns a function that builds a guest on its first call in the process.
func once(name string, build func(root string) ([]byte, error)) func() ([]byte, error) {
	buildsMu.Lock()
	defer buildsMu.Unlock()
	if builds[name] == nil {
		builds[name] = sync.OnceValues(func() ([]byte, error) {
			root, err := Root()
			if err != nil {
				return nil, err
			}
			return build(root)
		})
	}
	return builds[name]
}

// Skipper is the part of testing.TB that Foreign and TinyGo need.
type Skipper interface {
	TB
	Skipf(format string, args ...any)
}

// All builds guests, up to parallel at a time, and returns the modules' paths in the order of folders. The error
// joins the errors of all builds.
func All(ctx context.Context, root string, folders []string, parallel int) ([]string, error) {
	paths, failed := make([]string, len(folders)), make([]error, len(folders))
	slots := make(chan struct{}, max(parallel, 1))
	var wg sync.WaitGroup
	for i, folder := range folders {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			paths[i], failed[i] = Module(ctx, root, folder)
		})
	}
	wg.Wait()
	return paths, errors.Join(failed...)
}

// Find returns the guest folders that match folder, below root. It returns folder itself or, if folder ends in
// "/...", every folder below it with a main.go. It returns an error if there is none.
func Find(root, folder string) ([]string, error) {
	base, deep := strings.CutSuffix(filepath.ToSlash(filepath.Clean(folder)), "/...")
	if !deep {
		return []string{base}, nil
	}
	var found []string
	err := filepath.WalkDir(filepath.Join(root, base), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "main.go" {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		found = append(found, filepath.ToSlash(rel))
		return err
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no folder with a main.go below %s", folder)
	}
	return found, err
}

// Root returns the repository's root: the nearest directory with a go.mod, from the working directory upwards. It
// returns an error if there is none.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory: run this inside the repository")
		}
		dir = up
	}
}
