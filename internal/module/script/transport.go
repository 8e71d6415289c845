// Package script is the transport of scripts in TypeScript and JavaScript. The
// module is the engine of package javascript, which speaks the ABI as native
// modules do.
//
// The package evaluates a script when its image is built, asks it to end when
// it passes a limit, and turns what it throws into an [Error] with positions in
// the author's sources. It never bundles a script or loads a module: package
// module does.
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
	"github.com/agent-runner/agent-runner/internal/module/native"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// Transport is the transport of JavaScript. The module is the engine, which speaks
// the ABI as native modules do; what it adds are the script that it evaluates when
// its image is built, and what it says of errors, with positions in that script.
type Transport struct {
	Bundle []byte
	memory int64 // of values, in bytes
	stack  int64 // of the interpreter's own stack, in bytes
	where  func() *javascript.Map
}

// What an engine needs beside the values of a script: its stack and data, and
// what an allocator wastes.
const (
	engineBytes = 1_280 << 10
	minMemory   = 4 << 20
	// freeBytes is free in a script's image, so that an ordinary hook does not
	// make its memory grow.
	freeBytes = 2 << 20
)

// DefaultStackBytes is the default of StackBytes for scripts: one call in a script is
// several, of large functions, in the engine. The interpreter has a limit of its
// own beside it, which it comes to first, for that is an error with a place.
const (
	DefaultStackBytes = 8 << 20
	stackRatio        = 48 // of the stack of a call as the sandbox estimates it, to what the interpreter counts
	maxStackBytes     = 512 << 10
)

func New(bundle []byte, l sandbox.Limits) (*Transport, error) {
	if l.MemoryBytes < minMemory {
		return nil, &policy.LimitError{Limit: "memory_bytes", Max: int(l.MemoryBytes), What: fmt.Sprintf("a script, which needs %d bytes", minMemory)}
	}
	s := &Transport{Bundle: bundle, memory: (l.MemoryBytes - engineBytes) / 8 * 7, stack: min(l.StackBytes/stackRatio, maxStackBytes)}
	s.where = sync.OnceValue(func() *javascript.Map {
		m, err := javascript.ReadMap(s.Bundle)
		if err != nil {
			return nil // then positions are those of the bundle
		}
		return m
	})
	return s, nil
}

func (s *Transport) HostBytes(*policy.Limits) int64 { return 0 }

func (s *Transport) HookType() verify.FuncType { return native.HookType }

func (s *Transport) Name() string { return "javascript" }

// Readable puts places of the author's sources into a text.
func (s *Transport) Readable(text string) string {
	if !strings.Contains(text, "<script>:") {
		return text
	}
	return s.where().Translate(text)
}

// Start evaluates the script in a new instance.
func (s *Transport) Start(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) error {
	inv.Pending = javascript.Prelude()
	if err := s.evaluate(ctx, in, inv, javascript.ExportStart, uint64(s.memory), uint64(s.stack)); err != nil {
		return err
	}
	inv.Pending = s.Bundle
	return s.evaluate(ctx, in, inv, javascript.ExportLoad)
}

func (s *Transport) evaluate(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation, export string, args ...uint64) error {
	outcome, err := s.enter(ctx, in, inv, export, args...)
	if err != nil {
		return err
	}
	if outcome != 0 || stateOf(inv).over != nil {
		return s.thrown(inv, outcome)
	}
	return nil
}

// enter calls an export. What ends a script that did not end itself is told as if
// there were no grace.
func (s *Transport) enter(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation, export string, args ...uint64) (outcome int32, err error) {
	results, err := in.Call(inv.Context(ctx), export, append([]uint64{api.EncodeI32(int32(len(inv.Pending)))}, args...)...)
	var guest *sandbox.Fault
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

// Pack makes an instance ready for its image to be taken.
func (s *Transport) Pack(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) error {
	_, err := in.Call(inv.Context(ctx), javascript.ExportPack, freeBytes)
	return err
}

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
