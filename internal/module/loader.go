package module

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/module/extism"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/module/native"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// LoaderOptions configure a [Loader]. They are copied by [NewLoader].
type LoaderOptions struct {
	// CacheDir keeps compiled machine code between processes; see
	// sandbox.Options. Empty: no cache on disk.
	CacheDir string

	// CompileChild lets processes of their own compile; see child.Options
	// for what main has to do then. Nil: modules are compiled in this process.
	CompileChild *child.Options

	// MemoryBytes is what runs may use for their modules, all together; see
	// [Loader.Reserve]. Default half of what the machine has.
	MemoryBytes int64

	// FaultDir keeps a [Bundle] of each fault of a module in a run, the newest
	// 100. It is made with mode 0700 if it is missing; bundles hold what the
	// module saw, and only their owner can read them. Runs need more memory then,
	// for what their modules have read. Empty: none are kept.
	FaultDir string

	// Profile collects which functions of modules use their fuel; see sandbox.Options
	// for what that costs. Nil: nothing is collected.
	Profile *sandbox.Profile

	// Logger hears warnings about modules, and what modules print and log while
	// they are loaded and configured, at level warn at most. Nil: nobody hears it.
	Logger *slog.Logger
}

// A Loader turns files into modules. It is safe for concurrent use.
type Loader struct {
	sandbox *sandbox.Sandbox
	log     *slog.Logger
	faults  *replay.Dir // nil if faults are not kept
}

// NewLoader returns a loader. It fails if one of the directories cannot be used.
// The caller must close it.
func NewLoader(ctx context.Context, opts *LoaderOptions) (*Loader, error) {
	if opts == nil {
		opts = &LoaderOptions{}
	}
	l := &Loader{log: opts.Logger}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if opts.FaultDir != "" {
		var err error
		if l.faults, err = replay.OpenDir(opts.FaultDir); err != nil {
			return nil, err
		}
	}
	box, err := sandbox.New(ctx, &sandbox.Options{CacheDir: opts.CacheDir, CompileChild: opts.CompileChild,
		MemoryBytes: opts.MemoryBytes, Surface: surface(), Profile: opts.Profile, Logger: l.log})
	if err != nil {
		return nil, err
	}
	l.sandbox = box
	return l, nil
}

// Close ends the calls that are running, and frees all modules. It returns an
// error if ctx ends before the calls have.
func (l *Loader) Close(ctx context.Context) error { return l.sandbox.Close(ctx) }

// Load loads a module: a .wasm file, which may be an Extism plug-in, a script in
// TypeScript or JavaScript, or an Extism manifest (.json) that names a .wasm file.
// A manifest may lower limits, not raise them. What is wrong with a module is told in a *verify.RefusedError, which names the file, the thing
// and the fix. The caller closes the module.
func (l *Loader) Load(ctx context.Context, path string, limits policy.Limits) (*Module, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".json":
		return l.loadManifest(ctx, path, limits)
	case ".wat", ".wast":
		return nil, refuse(path, "this is WebAssembly text", "assemble it first: wat2wasm "+path)
	default:
		if javascript.IsScript(path) {
			return l.loadScriptFile(ctx, path, limits)
		}
	}
	b, err := readModule(path, limits)
	if err != nil {
		return nil, err
	}
	return l.LoadBytes(ctx, path, b, limits)
}

// LoadBytes loads a module from its bytes, which must not change afterwards: a
// .wasm file, a script if it is named like one, or a script with all that it
// imports, as they are in bundles of faults. A script imports nothing here but
// @agent-runner/middleware. The name is for messages.
func (l *Loader) LoadBytes(ctx context.Context, name string, b []byte, limits policy.Limits) (*Module, error) {
	return l.load(ctx, source{name: name}, b, limits)
}

// A source is where a module came from, and what stood beside it.
type source struct {
	name     string
	config   map[string]string // an Extism manifest's
	warnings []string
}

func (l *Loader) load(ctx context.Context, src source, b []byte, limits policy.Limits) (*Module, error) {
	switch {
	case javascript.IsBundle(b):
		return l.loadScript(ctx, src, b, limits)
	case javascript.IsScript(src.name) && !bytes.HasPrefix(b, []byte("\x00asm")):
		return l.loadScriptSource(ctx, src, javascript.SourceOf(src.name, string(b)), limits)
	}
	limits, err := limits.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("load module %s: %w", src.name, err)
	}
	image, err := l.sandbox.Load(ctx, src.name, b, limits.Limits)
	var refused *verify.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("load module %s: %w", src.name, err)
	}
	if slices.ContainsFunc(image.Imports(), func(i verify.ImportInfo) bool { return i.Module == javascript.ImportModule }) {
		image.Close()
		return nil, refuse(src.name, "imports "+javascript.ImportModule+", which is there for the engine of scripts alone", "")
	}
	limits.Limits = image.Limits()
	m := &Module{loader: l, source: src, digest: image.Digest(), limits: limits, image: image, transport: native.Transport{}}
	if isExtism, _ := importsOf(image.Imports()); isExtism {
		m.transport = extism.Transport{}
	}
	return l.finish(ctx, m, b)
}

// finish asks a module what it is, and tells of what is odd about it. It owns
// the module until it returns it.
func (l *Loader) finish(ctx context.Context, m *Module, b []byte) (*Module, error) {
	m.size = int64(len(b))
	if l.faults != nil {
		m.packed = &replay.PackedModule{Wasm: b}
	}
	if err := m.prepare(ctx); err != nil {
		m.Close()
		return nil, err
	}
	for _, w := range m.source.warnings {
		l.log.Warn("module", "module", m.Name(), "warning", w)
	}
	return m, nil
}

// readModule reads a module's file, as far as the limit of its size.
func readModule(path string, limits policy.Limits) ([]byte, error) {
	most := limits.ModuleBytes
	if most == 0 {
		most = sandbox.DefaultModuleBytes
	}
	b, err := readFile(path, most)
	if errors.Is(err, errTooLarge) {
		return nil, refuse(path, fmt.Sprintf("has more bytes than the limit module_bytes of %d", most),
			"strip debug information (Go: -ldflags='-s -w'; Rust: strip = true), or raise the limit")
	}
	return b, err
}

var errTooLarge = errors.New("too large")

// readFile reads a regular file of at most so many bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, refuse(path, "there is no such file", "check the path, or build the module first")
	case err != nil:
		return nil, fmt.Errorf("load module: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("load module: %w", err)
	case info.IsDir():
		return nil, refuse(path, "is a directory", "name the .wasm file in it")
	case !info.Mode().IsRegular():
		return nil, refuse(path, "is not a regular file", "name a .wasm file")
	}
	if info.Size() > most {
		return nil, errTooLarge
	}
	b := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead)) // it is megabytes, which would be copied several times
	_, err = b.ReadFrom(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("load module: %w", err)
	case int64(b.Len()) > most:
		return nil, errTooLarge
	}
	return b.Bytes(), nil
}

func refuse(name, reason, fix string) error {
	return &verify.RefusedError{Name: name, Reason: reason, Fix: fix}
}
