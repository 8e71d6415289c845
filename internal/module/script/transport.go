// Package script is the transport of scripts in TypeScript and JavaScript. The module is the engine
// of package javascript, which has the imports and exports of a native module.
//
// The package evaluates a script when its image is built, makes the script end when it exceeds a
// limit, and returns an uncaught error as an [Error] with positions in the author's sources. It
// does not bundle scripts or load modules; package module does.
package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/module/plain"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// Transport calls the hooks of one script. The hooks of the engine are those of a native module. In
// addition, the transport evaluates the script when its image is built, and returns errors with
// positions in the sources.
type Transport struct {
	Bundle []byte
	memory int64 // memory for the script's values, in bytes
	stack  int64 // the interpreter's stack size, in bytes
	where  func() *javascript.Map
}

// Memory that the engine needs in addition to a script's values. It contains the engine's stack,
// its data, and the overhead of the allocator.
const (
	engineBytes = 1_280 << 10
	minMemory   = 4 << 20
	// freeBytes is the amount of free memory in a script's image, in bytes. An ordinary hook then
	// does not have to grow the memory.
	freeBytes = 2 << 20
)

// DefaultStackBytes is the default of StackBytes for scripts. One call in a script makes several
// calls of large functions in the engine. The interpreter has its own, lower limit, whose error has
// a position in the script.
const (
	DefaultStackBytes = 8 << 20
	stackRatio        = 48 // estimated ratio of Wasm stack to interpreter stack
	maxStackBytes     = 512 << 10
)

// New returns the transport of a script. The script's values get seven eighths of the part of the
// memory limit that exceeds engineBytes. New returns a *policy.LimitError if the memory limit is
// less than minMemory.
func New(bundle []byte, l sandbox.Limits) (*Transport, error) {
	if l.MemoryBytes < minMemory {
		return nil, &policy.LimitError{
			Limit: "memory_bytes",
			Max:   int(l.MemoryBytes),
			What:  fmt.Sprintf("a script, which needs %d bytes", minMemory),
		}
	}
	s := &Transport{
		Bundle: bundle,
		memory: (l.MemoryBytes - engineBytes) / 8 * 7,
		stack:  min(l.StackBytes/stackRatio, maxStackBytes),
	}
	s.where = sync.OnceValue(func() *javascript.Map {
		m, err := javascript.ReadMap(s.Bundle)
		if err != nil {
			return nil // positions then refer to the bundle
		}
		return m
	})
	return s, nil
}

// HostBytes returns 0, because the transport needs no memory of its own.
func (s *Transport) HostBytes(*policy.Limits) int64 { return 0 }

// HookType returns the function type of the engine's hooks, which is that of native modules.
func (s *Transport) HookType() verify.FuncType { return plain.HookType }

// Name returns "javascript".
func (s *Transport) Name() string { return "javascript" }

// Readable replaces positions in the bundle with positions in the sources, and removes the
// prelude's frames from stack traces.
func (s *Transport) Readable(text string) string {
	text = javascript.WithoutPrelude(text)
	if !strings.Contains(text, "<script>:") {
		return text
	}
	return s.where().Translate(text)
}

// Start evaluates the prelude and then the script in a new instance.
func (s *Transport) Start(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) error {
	inv.Pending = javascript.Prelude()
	if err := s.evaluate(ctx, in, inv, javascript.ExportStart, uint64(s.memory), uint64(s.stack)); err != nil {
		return err
	}
	inv.Pending = s.Bundle
	return s.evaluate(ctx, in, inv, javascript.ExportLoad)
}

// evaluate calls an export of the engine that evaluates the pending code. It returns an [*Error] if
// the code threw an error or exceeded a limit.
func (s *Transport) evaluate(
	ctx context.Context,
	in *sandbox.Instance,
	inv *invoke.Invocation,
	export string,
	args ...uint64,
) error {
	outcome, err := s.enter(ctx, in, inv, export, args...)
	if err != nil {
		return err
	}
	if outcome != 0 || stateOf(inv).over != nil {
		return s.thrown(inv, outcome)
	}
	return nil
}

// enter calls an export of the engine. If the host stopped the script, the error contains the limit
// without the grace.
func (s *Transport) enter(
	ctx context.Context,
	in *sandbox.Instance,
	inv *invoke.Invocation,
	export string,
	args ...uint64,
) (outcome int32, err error) {
	results, err := in.Call(inv.Context(ctx), export, append([]uint64{api.EncodeI32(int32(len(inv.Pending)))}, args...)...)
	var guest *sandbox.FaultError
	switch {
	case err == nil:
		return api.DecodeI32(results[0]), nil
	case !errors.As(err, &guest):
	case guest.Kind == sandbox.FaultFuel:
		return 0, &Error{Text: fuelExceeded(inv.Limits).text, Limit: fuelExceeded(inv.Limits)}
	case guest.Kind == sandbox.FaultTimeout:
		return 0, &Error{Text: timeExceeded(inv.Limits).text, Limit: timeExceeded(inv.Limits)}
	}
	return 0, err
}

// Pack runs the engine's garbage collector, and makes freeBytes of memory in the instance free
// before its image is taken.
func (s *Transport) Pack(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) error {
	_, err := in.Call(inv.Context(ctx), javascript.ExportPack, freeBytes)
	return err
}

// Call calls the hook's function in the script. The result failed reports whether the function
// failed.
func (s *Transport) Call(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) (failed bool, err error) {
	outcome, err := s.enter(ctx, in, inv, string(inv.Hook))
	if err != nil {
		return false, err
	}
	if outcome > 1 || outcome < 0 || stateOf(inv).over != nil {
		return false, s.thrown(inv, outcome)
	}
	return outcome == 1, nil
}
