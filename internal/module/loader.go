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
	"github.com/agent-runner/agent-runner/internal/module/plain"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// LoaderOptions configures a [Loader]. [NewLoader] copies it.
type LoaderOptions struct {
	// CacheDir is a directory in which processes share compiled machine code; see sandbox.Options.
	// If empty, machine code is not cached on disk.
	CacheDir string

	// CompileChild makes the loader compile modules in child processes; child.Options documents
	// what main must do. If nil, modules are compiled in this process.
	CompileChild *child.Options

	// MemoryBytes is the maximum memory of the modules of all runs together; see [Loader.Reserve]. The default is half
	// of the machine's memory, or of the container's limit.
	MemoryBytes int64

	// FaultDir is a directory for fault bundles ([replay.Bundle]). One is written for each fault of
	// a module in a run, and the newest 100 are kept. NewLoader creates the directory with mode
	// 0700, because bundles contain the inputs of modules. Recording needs additional memory in
	// every run. If FaultDir is empty, faults are not recorded.
	FaultDir string

	// Profile receives the fuel that each function of a module uses; sandbox.Options documents what
	// this costs. If nil, no profile is collected.
	Profile *sandbox.Profile

	// Logger receives warnings about modules, and the output and log lines of modules while they
	// are loaded or configured. The highest level is warn. If nil, nothing is logged.
	Logger *slog.Logger
}

// A Loader loads modules from files and bytes. It is safe for concurrent use.
type Loader struct {
	sandbox *sandbox.Sandbox
	log     *slog.Logger
	faults  *replay.Dir // receives the fault bundles; nil if faults are not recorded
}

// NewLoader returns a loader. If opts is nil, all options have their defaults. NewLoader returns an
// error if it cannot use CacheDir or FaultDir. The caller must call Close.
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

// Close interrupts running calls and frees all modules. It returns an error if ctx is done before
// the calls end.
func (l *Loader) Close(ctx context.Context) error { return l.sandbox.Close(ctx) }

// Compiled reports whether the WebAssembly module with a SHA-256 digest in hexadecimal is in the cache on
// disk, so that it can be loaded without compiling it.
func (l *Loader) Compiled(digest string) bool { return l.sandbox.Compiled(digest) }

// Instances returns the number of instances of modules that are in use. It does not count idle
// instances.
func (l *Loader) Instances() int { return l.sandbox.Instances() }

// Load loads a module from a file. The file is a .wasm file (a native module or an Extism plug-in),
// a script in TypeScript or JavaScript, or an Extism manifest (.json) that names a .wasm file. A
// manifest can lower the limits but not raise them.
//
// The error is a *verify.RefusedError if the file is missing, invalid or exceeds a limit, or if the
// module fails in describe. This error names the file, the cause and, if known, a fix. The caller
// must close the module.
func (l *Loader) Load(ctx context.Context, path string, limits policy.Limits) (*Module, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".json":
		return l.loadManifest(ctx, path, limits)
	case ".wat", ".wast":
		return nil, refuse(path, "is WebAssembly text", "assemble it first: wat2wasm "+path)
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

// LoadBytes loads a module from b, which must not be changed afterwards. The argument b is a .wasm
// file, the source of a script if name has the extension of a script, or a bundled script from
// [BundleOf]. A script that is loaded from its source can import only @agent-runner/middleware.
// Errors and warnings contain name.
func (l *Loader) LoadBytes(ctx context.Context, name string, b []byte, limits policy.Limits) (*Module, error) {
	return l.load(ctx, source{name: name}, b, limits)
}

// A source is the origin of a module.
type source struct {
	name     string
	config   map[string]string // the configuration of an Extism manifest
	warnings []string
}

// load loads b as a bundled script, as the source of a script, or as a WebAssembly module.
func (l *Loader) load(ctx context.Context, src source, b []byte, limits policy.Limits) (*Module, error) {
	switch {
	case javascript.IsBundle(b):
		return l.loadScript(ctx, src, b, limits)
	case javascript.IsScript(src.name) && !bytes.HasPrefix(b, []byte("\x00asm")):
		return l.loadScriptSource(ctx, src, javascript.SourceOf(src.name, string(b)), limits)
	}
	limits, err := policy.WithDefaults(limits)
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
	if slices.ContainsFunc(image.Imports(),
		func(i verify.ImportInfo) bool { return i.Module == javascript.ImportModule }) {
		image.Close()
		return nil, refuse(src.name, "imports "+javascript.ImportModule+", which only the engine of scripts may import", "")
	}
	limits.Limits = image.Limits()
	m := &Module{
		loader:    l,
		source:    src,
		digest:    image.Digest(),
		limits:    limits,
		image:     image,
		transport: plain.Transport{},
	}
	if isExtism, _ := importsOf(image.Imports()); isExtism {
		m.transport = extism.Transport{}
	}
	return l.finish(ctx, m, b)
}

// finish calls describe, checks the description, and logs warnings. If it returns an error, it has
// closed the module.
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

// readModule reads a module's file. It returns an error if the file is larger than the limit
// module_bytes.
func readModule(path string, limits policy.Limits) ([]byte, error) {
	limit := limits.ModuleBytes
	if limit == 0 {
		limit = sandbox.DefaultModuleBytes
	}
	b, err := readFile(path, limit)
	if errors.Is(err, errTooLarge) {
		return nil, refuse(path, fmt.Sprintf("has more bytes than the limit module_bytes of %d", limit),
			"strip debug information (Go: -ldflags='-s -w'; Rust: strip = true), or raise the limit")
	}
	return b, err
}

var errTooLarge = errors.New("too large")

// readFile reads a regular file of at most limit bytes. The error is errTooLarge if the file is
// larger, and a *verify.RefusedError if the file does not exist or is not a regular file.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, refuse(path, "no such file", "check the path, or build the module first")
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
	if info.Size() > limit {
		return nil, errTooLarge
	}
	b := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead)) // allocated once: growing would copy megabytes
	_, err = b.ReadFrom(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("load module: %w", err)
	case int64(b.Len()) > limit:
		return nil, errTooLarge
	}
	return b.Bytes(), nil
}

func refuse(name, reason, fix string) error {
	return &verify.RefusedError{Name: name, Reason: reason, Fix: fix}
}
