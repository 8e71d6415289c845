// Package plain is the transport of native modules, which import the ABI directly, without Extism
// or JavaScript. Hooks are exports of type (input_len: i32) -> i32. Host calls are imports. Their
// reply is pending until the guest reads it with the import "read".
//
// [Imports] returns the imports for the sandbox, and [Transport] calls hooks. The package converts
// between Wasm parameters and the arguments of the methods of [invoke.Invocation]. It must not
// import another transport.
package plain

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// Transport calls the hooks of native modules.
type Transport struct{}

// Name returns "native", the transport's name in reports and stored descriptions.
func (Transport) Name() string { return "native" }

// HostBytes returns 0, because the transport needs no memory of its own.
func (Transport) HostBytes(*policy.Limits) int64 { return 0 }

// HookType returns [HookType].
func (Transport) HookType() verify.FuncType { return HookType }

// Start does nothing, because the module's start function has prepared the instance.
func (Transport) Start(context.Context, *sandbox.Instance, *invoke.Invocation) error { return nil }

// Pack does nothing, because a native module needs no preparation for its image.
func (Transport) Pack(context.Context, *sandbox.Instance, *invoke.Invocation) error { return nil }

// Call calls the hook with the length of its input. The hook copies the input with the import
// "read". The result failed reports whether the hook returned an error.
func (Transport) Call(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) (failed bool, err error) {
	results, err := in.Call(inv.Context(ctx), string(inv.Hook), api.EncodeI32(int32(len(inv.Pending))))
	if err != nil {
		return false, err
	}
	switch n := api.DecodeI32(results[0]); n {
	case 0:
		return false, nil
	case 1:
		return true, nil
	default:
		return false, &invoke.AnswerError{Text: fmt.Sprintf("returned %d; want 0 for done or 1 for failed", n)}
	}
}

// HookType is the function type of hooks.
var HookType = verify.FuncType{Params: []api.ValueType{api.ValueTypeI32}, Results: []api.ValueType{api.ValueTypeI32}}

// A function is the implementation of an import of the ABI.
type function struct {
	abitable.Import
	fuel policy.FuelClass

	// do makes the host call. It is called only if [invoke.Invocation.CheckAvailable] returned nil.
	do func(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) (reply []byte, err error)
	// raw is used instead of do for imports whose result is not the length of a reply.
	raw func(inv *invoke.Invocation, g *sandbox.Guest, p []uint64)
}

// implementations maps the name of each import of the ABI to its implementation.
var implementations = map[string]function{
	"read":         {raw: read},
	"write":        {raw: write},
	"next":         {do: next},
	"next_stream":  {do: nextStream},
	"recv":         {do: recv},
	"send":         {do: send},
	"messages":     {do: messages},
	"changed":      {raw: changed},
	"local_get":    {do: localGet},
	"local_set":    {do: localSet},
	"local_delete": {do: localDelete},
	"local_add":    {do: localAdd},
	"emit":         {do: emit},
	"config":       {do: config},
	"log":          {raw: logText},
	"model":        {do: model},
	"tool":         {do: tool},
	"http":         {do: sendHTTP},
	"store_get":    {do: storeGet},
	"store_set":    {do: storeSet},
	"store_delete": {do: storeDelete},
	"store_add":    {do: storeAdd},
}

// fuelClasses maps the names of fuel classes in the ABI's table to the classes of package policy.
var fuelClasses = map[string]policy.FuelClass{"value": policy.FuelValue, "record": policy.FuelRecord}

// Imports returns all imports of the ABI, in the order of its table.
func Imports() []invoke.Import {
	rows := abitable.Imports()
	out := make([]invoke.Import, len(rows))
	for i := range rows {
		f := implementations[rows[i].Name]
		f.Import, f.fuel = rows[i], fuelClasses[rows[i].Fuel]
		params, results := f.Signature()
		out[i] = invoke.Import{
			Import: sandbox.Import{
				Module: contract.ImportModule, Name: f.Name,
				Params: invoke.ValueTypes(params), Results: invoke.ValueTypes(results), Func: f.call,
			},
			Does: f.Does, Grant: f.Grant, Fuel: f.fuel,
		}
	}
	return out
}

// call implements the import for the sandbox.
func (row *function) call(ctx context.Context, g *sandbox.Guest, p []uint64) {
	inv := invoke.Of(ctx)
	inv.Begin(g, row.fuel)
	if row.raw != nil {
		row.raw(inv, g, p)
	} else {
		inv.DropReply()
		reply, err := row.reply(ctx, inv, g, p)
		p[0] = api.EncodeI32(inv.SetReply(g, reply, err))
	}
	inv.End()
}

func (row *function) reply(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	if err := inv.CheckAvailable(row.Name); err != nil {
		return nil, err
	}
	return row.do(ctx, inv, g, p)
}

// number returns a parameter of type i32 as an int.
func number(p uint64) int { return int(api.DecodeI32(p)) }

// u32 returns a parameter of type i32 as an unsigned number, such as a pointer or a length.
func u32(p uint64) uint64 { return uint64(api.DecodeU32(p)) }

func read(inv *invoke.Invocation, g *sandbox.Guest, p []uint64) {
	n := min(uint64(len(inv.Pending)), u32(p[1]))
	if n > 0 {
		g.Write(uint32(u32(p[0])), inv.Pending[:n])
		inv.BytesIn += int64(n)
	}
	p[0] = n
}

func write(inv *invoke.Invocation, g *sandbox.Guest, p []uint64) {
	inv.TakeAnswer(g, u32(p[0]), u32(p[1]))
}

func logText(inv *invoke.Invocation, g *sandbox.Guest, p []uint64) {
	level, ptr, n := api.DecodeI32(p[0]), u32(p[1]), u32(p[2])
	if !invoke.InMemory(g, ptr, n) {
		g.Read(uint32(ptr), uint32(n)) // does not return
	}
	inv.LogGuest(g, level, int(n), func(keep int) []byte { return g.Read(uint32(ptr), uint32(keep)) })
}

// changed implements the import "changed", whose result is an index instead of the length of a
// reply.
func changed(inv *invoke.Invocation, g *sandbox.Guest, p []uint64) {
	inv.Pending = nil
	first, err := 0, inv.CheckAvailable("changed")
	if err == nil {
		first, err = inv.Changed(number(p[0]), int64(p[1]))
	}
	if err != nil {
		p[0] = api.EncodeI32(inv.SetReply(g, nil, err))
		return
	}
	p[0] = api.EncodeI32(int32(first))
}

func next(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := inv.Next(ctx, inv.TakeBriefly(g, "next", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}

func messages(_ context.Context, inv *invoke.Invocation, _ *sandbox.Guest, p []uint64) ([]byte, error) {
	return inv.MessagesBriefly(number(p[0]), number(p[1]), number(p[2]))
}

func localGet(_ context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := inv.TakeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	return inv.LocalGet(key)
}

func localSet(_ context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := inv.TakeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	return inv.LocalSet(key, inv.TakeBriefly(g, "local_set", u32(p[2]), u32(p[3])), int64(p[4]))
}

func localDelete(_ context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := inv.TakeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	return inv.LocalDelete(key)
}

func localAdd(_ context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := inv.TakeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	return inv.LocalAdd(key, int64(p[2]))
}

func emit(_ context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	ptr, n := u32(p[0]), u32(p[1])
	if invoke.InMemory(g, ptr, n) {
		if err := invoke.CheckEvent(int(n)); err != nil {
			return nil, err
		}
	}
	return inv.Emit(inv.Take(g, "emit", ptr, n))
}

func config(_ context.Context, inv *invoke.Invocation, _ *sandbox.Guest, _ []uint64) ([]byte, error) {
	return inv.Config, nil
}
