package module

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// script is the transport of JavaScript. The module is the engine, which speaks
// the ABI as native modules do; what it adds are the script that it evaluates when
// its image is built, and what it says of errors, with positions in that script.
type script struct {
	bundle []byte
	memory int64 // of values, in bytes
	stack  int64 // of the interpreter's own stack, in bytes
	where  func() *javascript.Map
}

// What an engine needs beside the values of a script: its stack and data, and
// what an allocator wastes.
const (
	engineBytes    = 1_280 << 10
	leastOfScripts = 4 << 20
	// scriptRoom is free in a script's image, so that an ordinary hook does not
	// make its memory grow.
	scriptRoom = 2 << 20
)

// scriptStack is the default of StackBytes for scripts: one call in a script is
// several, of large functions, in the engine. The interpreter has a limit of its
// own beside it, which it comes to first, for that is an error with a place.
const (
	scriptStack  = 8 << 20
	stackRatio   = 48 // of the stack of a call as the sandbox estimates it, to what the interpreter counts
	mostOfStacks = 512 << 10
)

func newScript(bundle []byte, l sandbox.Limits) (*script, error) {
	if l.MemoryBytes < leastOfScripts {
		return nil, &limitError{"memory_bytes", int(l.MemoryBytes), fmt.Sprintf("a script, which needs %d bytes", leastOfScripts), ""}
	}
	s := &script{bundle: bundle, memory: (l.MemoryBytes - engineBytes) / 8 * 7, stack: min(l.StackBytes/stackRatio, mostOfStacks)}
	s.where = sync.OnceValue(func() *javascript.Map {
		m, err := javascript.ReadMap(s.bundle)
		if err != nil {
			return nil // then positions are those of the bundle
		}
		return m
	})
	return s, nil
}

func (s *script) holds(*Limits) int64 { return 0 }

func (s *script) hook() sandbox.FuncType { return nativeHook }

func (s *script) name() string { return "javascript" }

// readable puts places of the author's sources into a text.
func (s *script) readable(text string) string {
	if !strings.Contains(text, "<script>:") {
		return text
	}
	return s.where().Translate(text)
}

// start evaluates the script in a new instance.
func (s *script) start(ctx context.Context, in *sandbox.Instance, v *visit) error {
	v.pending = javascript.Prelude()
	if err := s.evaluate(ctx, in, v, javascript.ExportStart, uint64(s.memory), uint64(s.stack)); err != nil {
		return err
	}
	v.pending = s.bundle
	return s.evaluate(ctx, in, v, javascript.ExportLoad)
}

func (s *script) evaluate(ctx context.Context, in *sandbox.Instance, v *visit, export string, args ...uint64) error {
	outcome, err := s.enter(ctx, in, v, export, args...)
	if err != nil {
		return err
	}
	if outcome != 0 || v.over != nil {
		return s.thrown(v, outcome)
	}
	return nil
}

// enter calls an export. What ends a script that did not end itself is told as if
// there were no grace.
func (s *script) enter(ctx context.Context, in *sandbox.Instance, v *visit, export string, args ...uint64) (outcome int32, err error) {
	results, err := in.Call(v.context(ctx), export, append([]uint64{api.EncodeI32(int32(len(v.pending)))}, args...)...)
	var guest *sandbox.Fault
	switch {
	case err == nil:
		return api.DecodeI32(results[0]), nil
	case !errors.As(err, &guest):
	case guest.Kind == sandbox.FaultFuel:
		return 0, &scriptError{text: overFuel(v.limits).text, limit: overFuel(v.limits)}
	case guest.Kind == sandbox.FaultTimeout:
		return 0, &scriptError{text: overTime(v.limits).text, limit: overTime(v.limits)}
	}
	return 0, err
}

// pack makes an instance ready for its image to be taken.
func (s *script) pack(ctx context.Context, in *sandbox.Instance, v *visit) error {
	_, err := in.Call(v.context(ctx), javascript.ExportPack, scriptRoom)
	return err
}

func (s *script) call(ctx context.Context, in *sandbox.Instance, v *visit) (failed bool, err error) {
	outcome, err := s.enter(ctx, in, v, string(v.hook))
	if err != nil {
		return false, err
	}
	if outcome > 1 || outcome < 0 || v.over != nil {
		return false, s.thrown(v, outcome)
	}
	return outcome == 1, nil
}

// loadScript loads a script that was bundled before.
func (l *Loader) loadScript(ctx context.Context, src source, bundle []byte, limits Limits) (*Module, error) {
	limits, err := limits.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("load module %s: %w", src.name, err)
	}
	def(&limits.ModuleBytes, sandbox.DefaultModuleBytes)
	if most := limits.ModuleBytes; int64(len(bundle)) > most {
		return nil, refuse(src.name, fmt.Sprintf("has %d bytes with all that it imports, more than the limit module_bytes of %d", len(bundle), most),
			"import less, or raise the limit")
	}
	def(&limits.StackBytes, scriptStack)
	def(&limits.HookTime, sandbox.DefaultHookTime)
	def(&limits.Fuel, sandbox.DefaultFuel)
	own := graced(limits.Limits)
	own.ModuleBytes = int64(len(javascript.Engine())) // the limit is the script's
	image, err := l.sandbox.Load(ctx, src.name, javascript.Engine(), own)
	if err != nil {
		return nil, err
	}
	asked := limits.Limits
	limits.Limits = image.Limits()
	limits.ModuleBytes, limits.HookTime, limits.Fuel = asked.ModuleBytes, asked.HookTime, asked.Fuel
	s, err := newScript(bundle, limits.Limits)
	if err != nil {
		image.Close()
		return nil, refuse(src.name, err.Error(), "raise the limit")
	}
	sum := sha256.Sum256(bundle)
	m := &Module{loader: l, source: src, digest: hex.EncodeToString(sum[:]), limits: limits, image: image, transport: s}
	return l.finish(ctx, m, bundle)
}

// loadScriptFile loads a script as its author wrote it, or a bundle.
func (l *Loader) loadScriptFile(ctx context.Context, path string, limits Limits) (*Module, error) {
	text, err := readModule(path, limits)
	if err != nil {
		return nil, err
	}
	if javascript.IsBundle(text) {
		return l.loadScript(ctx, source{name: path}, text, limits)
	}
	s, err := javascript.FindSource(path)
	if err != nil {
		return nil, fmt.Errorf("load module: %w", err)
	}
	return l.loadScriptSource(ctx, source{name: path}, s, limits)
}

func (l *Loader) loadScriptSource(ctx context.Context, src source, s javascript.Source, limits Limits) (*Module, error) {
	bundle, err := l.bundle(ctx, src.name, s)
	if err != nil {
		return nil, err
	}
	src.warnings = append(src.warnings, bundle.Warnings...)
	return l.loadScript(ctx, src, bundle.Code, limits)
}

// BundleScript bundles the script in a file with all that it imports, in a child if
// there are any. It returns one file of JavaScript that Load accepts.
func (l *Loader) BundleScript(ctx context.Context, path string) ([]byte, error) {
	s, err := javascript.FindSource(path)
	if err != nil {
		return nil, err
	}
	b, err := l.bundle(ctx, path, s)
	if err != nil {
		return nil, err
	}
	return b.Code, nil
}

// bundle bundles a script, in a child if there are any.
func (l *Loader) bundle(ctx context.Context, path string, s javascript.Source) (*javascript.Bundle, error) {
	bundle, err := l.bundleInChild(ctx, s)
	if errors.Is(err, sandbox.ErrNoChildren) {
		s.Guarded = true
		bundle, err = javascript.Build(s)
	}
	var mistake *javascript.Mistake
	var refused *sandbox.RefusedError
	switch {
	case errors.As(err, &mistake):
		return nil, refuse(path, mistake.Text, "")
	case errors.As(err, &refused):
		return nil, refuse(path, refused.Reason, "the script, or what it imports, is too large or nested too deeply")
	case err != nil:
		return nil, fmt.Errorf("load module %s: %w", path, err)
	}
	return bundle, nil
}

// Limits of the child that bundles a script without files. A script of 1 MiB takes less
// than 1 s of processor time and 150 MiB.
const (
	bundleMemory  = 512 << 20
	bundleCPUTime = 10 * time.Second
)

func (l *Loader) bundleInChild(ctx context.Context, s javascript.Source) (*javascript.Bundle, error) {
	input, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	job := sandbox.Job{Name: javascript.JobName, Input: input}
	if s.Text == nil {
		job.Directory = s.Root
	} else {
		job.MemoryBytes, job.CPUTime = bundleMemory, bundleCPUTime
	}
	output, err := l.sandbox.RunJob(ctx, job)
	if err != nil {
		return nil, err
	}
	return javascript.JobResult(output)
}
