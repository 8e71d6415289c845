package sandbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// FuzzSandbox checks that any bytes are rejected, or run and end with a documented error, and
// that everything is freed.
func FuzzSandbox(f *testing.F) {
	f.Add(guestWasm)
	f.Add(module(nil))
	f.Add(large(nil))
	limits := Limits{MemoryBytes: 4 << 20, HookTime: 10 * time.Second, Fuel: 100_000, StackBytes: 64 << 10}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := New(t.Context(), &Options{Surface: testSurface()})
		require.NoError(t, err)
		require.NoError(t, s.run(b, limits))
		require.Empty(t, s.live)
		require.Empty(t, s.codes.Keys())
		require.NoError(t, s.Close(t.Context()))
	})
}

// run loads a module and calls all its exports. It returns unexpected errors.
func (s *Sandbox) run(b []byte, limits Limits) error {
	ctx := context.Background()
	im, err := s.Load(ctx, "fuzz", b, limits)
	if refused := new(verify.RefusedError); errors.As(err, &refused) {
		return nil
	} else if err != nil {
		return err
	}
	defer im.Close()
	value := &testValue{
		call: func(context.Context, *Guest, uint32) uint32 { return 1 },
		wait: func(context.Context, uint32) uint32 { return 2 },
	}
	for _, export := range im.Exports() {
		if export.Kind != "function" {
			continue
		}
		in, err := im.Instantiate(ctx, InstanceConfig{Value: value})
		if err == nil {
			_, err = in.Call(ctx, export.Name, make([]uint64, len(export.Type.Params))...)
			in.Close()
		}
		fault := new(FaultError)
		if err != nil && !errors.As(err, &fault) {
			return err
		}
		// The test's imports panic while an image is built, because they have no value then.
		// Other internal faults are mistakes of the host.
		if fault.Kind == FaultInternal && fault.Export != verify.Initialize && fault.Export != "" {
			return err
		}
	}
	return nil
}
