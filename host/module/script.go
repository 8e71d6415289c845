package module

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/host/module/javascript"
	"github.com/agent-runner/agent-runner/host/sandbox"
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

// A script that passes a limit is asked to end, so that it can tell where it was;
// it has so much more before it is made to.
const (
	graceTime = 50 * time.Millisecond
	graceFuel = 20_000_000
)

func graced(l sandbox.Limits) sandbox.Limits {
	l.HookTime += graceTime
	l.Fuel = min(l.Fuel, math.MaxInt64-graceFuel) + graceFuel
	return l
}

// isOver tells a script whether it has to end. It asks too often for that to be a
// host call; but a yes for its time is one in a recording, since only that is not
// the same each time.
func (v *visit) isOver(g *sandbox.Guest) bool {
	v.polls++
	ran, fuel := g.Used()
	switch {
	case fuel > v.limits.Fuel:
		v.over = overFuel(v.limits)
	case ran > v.limits.HookTime && v.replay == nil, v.replay != nil && v.replay.isOver(v.polls):
		v.over = overTime(v.limits)
		v.recorder.add(HostCall{Name: callOver, Numbers: []int64{v.polls}}, nil, nil)
	default:
		return false
	}
	return true
}

// An overLimit is a limit that a script passed.
type overLimit struct {
	limit string // its name
	value int64
	text  string
}

func overFuel(l *Limits) *overLimit {
	return &overLimit{limit: "fuel", value: l.Fuel, text: fmt.Sprintf("used more than its %d fuel", l.Fuel)}
}

func overTime(l *Limits) *overLimit {
	return &overLimit{limit: "hook_time", value: int64(l.HookTime), text: fmt.Sprintf("ran longer than %v", l.HookTime)}
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

// scriptImport is what the engine asks whether a script has to end.
func scriptImport() sandbox.Import {
	return sandbox.Import{Module: javascript.ImportModule, Name: javascript.ImportOver, Results: []api.ValueType{api.ValueTypeI32},
		Func: func(ctx context.Context, g *sandbox.Guest, stack []uint64) {
			stack[0] = 0
			if visitOf(ctx).isOver(g) {
				stack[0] = 1
			}
		}}
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

// A scriptError is the cause of a fault: a mistake in a script.
type scriptError struct {
	text  string
	limit *overLimit // that the script passed; may be nil
	stack []string   // places in the sources, innermost first
	frame []string   // the lines around the first
}

func (e *scriptError) Error() string { return e.text }

// What is kept of what a script says that it threw, which can be anything.
const (
	maxThrown = 2 << 10 // bytes
	maxStack  = 30      // lines
)

// thrown makes an error of what the script, or the engine, wrote as its last words.
func (s *script) thrown(v *visit, outcome int32) error {
	var t javascript.Thrown
	switch outcome {
	case 0, 1: // it was over, and went on
	case javascript.Broken:
		first, stack, _ := strings.Cut(string(v.output), "\n")
		t.Message, t.Stack = "the engine gave up: "+first, stack
		if first == "" {
			t.Message = "the engine gave up, probably for want of memory"
		}
	case javascript.Threw:
		if err := json.Unmarshal(v.output, &t); err != nil {
			return &scriptError{text: "threw something that cannot be read"}
		}
	default:
		t.Message = fmt.Sprintf("returned %d", outcome)
	}
	if v.over != nil {
		t.Name, t.Message = "", v.over.text
	}
	e := &scriptError{text: t.Message, limit: v.over}
	if t.Name != "" {
		e.text = t.Name + ": " + t.Message
	}
	e.text = printable(e.text, maxThrown)
	sources := s.where()
	for line := range strings.Lines(t.Stack) {
		if line = strings.TrimSpace(line); line == "" || len(e.stack) == maxStack {
			continue
		}
		if strings.Contains(line, "(host:") || strings.HasPrefix(line, "at host:") || strings.HasSuffix(line, "(native)") {
			continue // the prelude's own
		}
		e.stack = append(e.stack, printable(sources.Translate(line), 256))
	}
	if p, ok := sources.First(t.Stack); ok {
		e.text += " (" + printable(p.String(), 256) + ")"
		if frame := sources.Frame(p); frame != "" {
			for line := range strings.SplitSeq(frame, "\n") {
				e.frame = append(e.frame, printable(line, 256))
			}
		}
	}
	return e
}

// printable is a text that a terminal can be shown.
func printable(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.Map(shown, s)
}

// load loads a script that was bundled before.
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

// bundleScript loads a script as its author wrote it.
func (l *Loader) bundleScript(ctx context.Context, path string, limits Limits) (*Module, error) {
	text, err := readModule(path, limits)
	if err != nil {
		return nil, err
	}
	if javascript.IsBundle(text) {
		return l.loadScript(ctx, source{name: path}, text, limits)
	}
	bundle, err := l.bundle(ctx, path)
	if err != nil {
		return nil, err
	}
	return l.loadScript(ctx, source{name: path, warnings: bundle.Warnings}, bundle.Code, limits)
}

// bundle bundles a script, in a child if there are any.
func (l *Loader) bundle(ctx context.Context, path string) (*javascript.Bundle, error) {
	s, err := javascript.FindSource(path)
	if err != nil {
		return nil, fmt.Errorf("load module: %w", err)
	}
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

func (l *Loader) bundleInChild(ctx context.Context, s javascript.Source) (*javascript.Bundle, error) {
	input, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	output, err := l.sandbox.RunJob(ctx, javascript.JobName, input)
	if err != nil {
		return nil, err
	}
	return javascript.JobResult(output)
}
