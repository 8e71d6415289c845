package sandbox

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// goBench returns an image of the Go guest whose setup has called the export "work" once.
func goBench(b *testing.B) *Image {
	wasm, err := goGuest()
	require.NoError(b, err)
	im, err := load(b, newSandbox(b, Options{}), wasm, Limits{}).Prepare(b.Context(), InstanceConfig{},
		func(ctx context.Context, in *Instance) error {
			_, err := in.Call(ctx, "work", 100)
			return err
		})
	require.NoError(b, err)
	b.Cleanup(im.Close)
	return im
}

// BenchmarkInstantiate measures taking an instance of a 2.6 MB Go guest from the pool and returning
// it.
func BenchmarkInstantiate(b *testing.B) {
	im := goBench(b)
	b.ReportAllocs()
	for b.Loop() {
		in, err := im.Instantiate(b.Context(), InstanceConfig{})
		if err != nil {
			b.Fatal(err)
		}
		in.Close()
	}
}

// BenchmarkInstantiateNew measures making and closing a new instance of a 2.6 MB Go guest.
func BenchmarkInstantiateNew(b *testing.B) {
	im := goBench(b)
	b.ReportAllocs()
	for b.Loop() {
		in, err := im.Instantiate(b.Context(), InstanceConfig{})
		if err != nil {
			b.Fatal(err)
		}
		in.dead = true // so that it does not return to the pool
		in.Close()
	}
}

// BenchmarkWork measures a hook that decodes and encodes JSON: on a clean instance from the pool
// each time, on the same instance, and on wazero without metering.
func BenchmarkWork(b *testing.B) {
	im := goBench(b)
	for _, kilobytes := range []uint64{1, 100} {
		b.Run(fmt.Sprintf("clean/%dKB", kilobytes), func(b *testing.B) {
			for b.Loop() {
				in, err := im.Instantiate(b.Context(), InstanceConfig{})
				if err != nil {
					b.Fatal(err)
				}
				call(b, in, "work", kilobytes)
				in.Close()
			}
		})
		b.Run(fmt.Sprintf("warm/%dKB", kilobytes), func(b *testing.B) {
			in := instantiate(b, im, InstanceConfig{})
			for b.Loop() {
				call(b, in, "work", kilobytes)
			}
			b.ReportMetric(float64(in.Report().Fuel), "fuel/op")
		})
		b.Run(fmt.Sprintf("unmetered/%dKB", kilobytes), func(b *testing.B) {
			work := unmetered(b)
			for b.Loop() {
				if results, err := work.Call(b.Context(), kilobytes); err != nil || results[0] != 0 {
					b.Fatal(results, err)
				}
			}
		})
	}
}

// unmetered returns the export "work" of the Go guest on wazero alone, without any limits.
func unmetered(b *testing.B) api.Function {
	wasm, err := goGuest()
	require.NoError(b, err)
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	b.Cleanup(func() { _ = r.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	_, err = r.NewHostModuleBuilder("test_v1").NewFunctionBuilder().
		WithFunc(func(n uint32) uint32 { return n }).Export("call").Instantiate(ctx)
	require.NoError(b, err)
	in, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions(verify.Initialize))
	require.NoError(b, err)
	return in.ExportedFunction("work")
}

// BenchmarkCall measures a call of a small export.
func BenchmarkCall(b *testing.B) {
	in := guest(b, InstanceConfig{}, Limits{})
	b.ReportAllocs()
	for b.Loop() {
		call(b, in, "count")
	}
}

// BenchmarkImport measures a call of an import that does nothing.
func BenchmarkImport(b *testing.B) {
	const times = 1000
	im := load(b, newSandbox(b, Options{}), module(func(m *wasm.Module) {
		m.Types = append(m.Types, wasm.FuncType{Results: []wasm.ValueType{wasm.I32}})
		m.Imports = []wasm.Import{function(verify.WASIModule, "sched_yield", 3)}
		m.Exports[1].Index = 1
		// do { call 0 } while (--parameter != 0)
		m.Code[0].Body = []byte{0x03, 0x40, 0x10, 0, 0x1a, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, 0x41, 0, 0x0b}
	}), Limits{})
	in := instantiate(b, im, InstanceConfig{})
	for b.Loop() {
		call(b, in, "hook", times)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/times, "ns/import")
}
