package main

import (
	"bytes"
	"context"
	"fmt"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agent-runner/agent-runner/bench/internal/work"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// A guest is a function that processes an input as [work.Do] does.
type guest func(in []byte) (out []byte, err error)

// check returns an error if the guest and [work.Do] give different answers to the same input.
func check(g guest, in []byte) error {
	want, err := work.Do(in)
	if err != nil {
		return err
	}
	got, err := g(in)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("it answers %.80q, not %.80q", got, want)
	}
	return err
}

// An exchange holds the input and the output of a guest's latest call.
type exchange struct{ in, out []byte }

func newSandbox(ctx context.Context, o sandbox.Options) (*sandbox.Sandbox, error) {
	two := []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}
	o.Surface = sandbox.Surface{Name: "the benchmark", Imports: []sandbox.Import{
		{Module: "bench_v1", Name: "read", Params: two, Func: func(_ context.Context, g *sandbox.Guest, stack []uint64) {
			x := g.Value().(*exchange)
			g.Write(uint32(stack[0]), x.in[:min(len(x.in), int(uint32(stack[1])))])
		}},
		{Module: "bench_v1", Name: "write", Params: two, Func: func(_ context.Context, g *sandbox.Guest, stack []uint64) {
			g.Value().(*exchange).out = g.Read(uint32(stack[0]), uint32(stack[1]))
		}},
	}}
	return sandbox.New(ctx, &o)
}

// warmImage returns the image of the guest after it has processed inputs of kb KB.
func warmImage(ctx context.Context, s *sandbox.Sandbox, module []byte, kb int) (*sandbox.Image, error) {
	im, err := s.Load(ctx, "plain.wasm", module, sandbox.Limits{})
	if err != nil {
		return nil, err
	}
	defer im.Close()
	x := &exchange{in: work.Conversation(kb << 10)}
	return im.Prepare(ctx, sandbox.InstanceConfig{Value: x}, func(ctx context.Context, in *sandbox.Instance) error {
		for range 3 {
			if _, err := callHook(ctx, in, x); err != nil {
				return err
			}
		}
		return nil
	})
}

func callHook(ctx context.Context, in *sandbox.Instance, x *exchange) ([]byte, error) {
	results, err := in.Call(ctx, "hook", uint64(len(x.in)))
	if err == nil && results[0] != 0 {
		err = fmt.Errorf("the guest failed")
	}
	return x.out, err
}

// warm returns a guest that answers all inputs with one instance.
func warm(ctx context.Context, im *sandbox.Image) (guest, error) {
	x := &exchange{}
	in, err := im.Instantiate(ctx, sandbox.InstanceConfig{Value: x})
	if err != nil {
		return nil, err
	}
	return func(b []byte) ([]byte, error) {
		x.in = b
		return callHook(ctx, in, x)
	}, nil
}

// clean returns a guest that answers each input with a fresh instance from the pool.
func clean(ctx context.Context, im *sandbox.Image) guest {
	return func(b []byte) ([]byte, error) {
		x := &exchange{in: b}
		in, err := im.Instantiate(ctx, sandbox.InstanceConfig{Value: x})
		if err != nil {
			return nil, err
		}
		defer in.Close()
		return callHook(ctx, in, x)
	}
}

// raw runs the guest in plain wazero, which has no way to stop it.
type raw struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	exchange
}

func newRaw(ctx context.Context, module []byte) (*raw, error) {
	r := &raw{runtime: wazero.NewRuntime(ctx)}
	wasi_snapshot_preview1.MustInstantiate(ctx, r.runtime)
	_, err := r.runtime.NewHostModuleBuilder("bench_v1").
		NewFunctionBuilder().
		WithFunc(func(_ context.Context, m api.Module, ptr, _ uint32) { m.Memory().Write(ptr, r.in) }).Export("read").
		NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module, ptr, size uint32) {
		b, _ := m.Memory().Read(ptr, size)
		r.out = bytes.Clone(b)
	}).Export("write").Instantiate(ctx)
	if err != nil {
		return nil, err
	}
	r.compiled, err = r.runtime.CompileModule(ctx, module)
	return r, err
}

func (r *raw) instantiate(ctx context.Context) (api.Module, error) {
	return r.runtime.InstantiateModule(
		ctx,
		r.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"),
	)
}

// warm returns a guest that answers all inputs with one instance.
func (r *raw) warm(ctx context.Context) (guest, error) {
	m, err := r.instantiate(ctx)
	if err != nil {
		return nil, err
	}
	f := m.ExportedFunction("hook")
	return func(b []byte) ([]byte, error) {
		r.in = b
		results, err := f.Call(ctx, uint64(len(b)))
		if err == nil && results[0] != 0 {
			err = fmt.Errorf("the guest failed")
		}
		return r.out, err
	}, nil
}

// plugin returns the guest as a plug-in of the Extism SDK. The SDK can stop it only if timeoutMS is
// not 0.
func plugin(ctx context.Context, module []byte, timeoutMS uint64) (guest, error) {
	p, err := extism.NewPlugin(
		ctx,
		extism.Manifest{Wasm: []extism.Wasm{extism.WasmData{Data: module}}, Timeout: timeoutMS},
		extism.PluginConfig{EnableWasi: true},
		nil,
	)
	if err != nil {
		return nil, err
	}
	return func(b []byte) ([]byte, error) {
		code, out, err := p.Call("hook", b)
		if err == nil && code != 0 {
			err = fmt.Errorf("the plug-in failed")
		}
		return out, err
	}, nil
}
