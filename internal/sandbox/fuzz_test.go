package sandbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever the bytes are: they are refused, or run and end, with an error of a
// kind that callers know, and leave nothing behind.
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
		require.Empty(t, s.codes)
		require.NoError(t, s.Close(t.Context()))
	})
}

// run loads a module and calls all that it exports. It returns errors only that
// should not be.
func (s *Sandbox) run(b []byte, limits Limits) error {
	ctx := context.Background()
	im, err := s.Load(ctx, "fuzz", b, limits)
	if refused := new(RefusedError); errors.As(err, &refused) {
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
		fault := new(Fault)
		if err != nil && !errors.As(err, &fault) {
			return err
		}
		// Imports see no value while an image is built, which the test's do not
		// expect; nothing else is the host's fault.
		if fault.Kind == FaultInternal && fault.Export != initialize && fault.Export != "" {
			return err
		}
	}
	return nil
}
