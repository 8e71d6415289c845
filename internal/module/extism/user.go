package extism

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/plain"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// A userFunction is a host call of the ABI as a function of extism:host/user. Its argument, if any,
// is the offset of a block with JSON. Its result is the offset of a block with the reply of the
// ABI's host call. The block contains {} if the reply is empty, and {"error": {…}} if the call
// failed.
type userFunction struct {
	name string
	bare bool // whether the function has no argument
	// waits reports whether the call may block. After such a call, the guest's clock advances.
	waits bool
	fuel  policy.FuelClass // fuel class of the native import of the same name
	// do makes the call. It is called only if [invoke.Invocation.CheckAvailable] returned nil.
	do func(ctx context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error)
}

// userFunctions returns all functions of extism:host/user, in the order of the ABI's table. Host
// calls for reading, writing and logging are functions of extism:host/env instead.
func userFunctions() []userFunction {
	rows := []userFunction{
		{name: "next", waits: true, do: func(ctx context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
			return inv.Next(ctx, arg)
		}},
		{name: "next_stream", waits: true, do: func(ctx context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
			return inv.NextStream(ctx, arg)
		}},
		{
			name:  "recv",
			bare:  true,
			waits: true,
			do:    func(ctx context.Context, inv *invoke.Invocation, _ []byte) ([]byte, error) { return inv.Recv(ctx) },
		},
		{name: "send", waits: true, do: func(ctx context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
			return inv.Send(ctx, arg)
		}},
		{name: "messages", do: userMessages},
		{name: "changed", do: userChanged},
		{
			name: "local_get",
			do: keyed(
				func(_ context.Context, inv *invoke.Invocation, a *keyArg) ([]byte, error) { return inv.LocalGet(a.Key) },
			),
		},
		{name: "local_set", do: keyed(func(_ context.Context, inv *invoke.Invocation, a *keyArg) ([]byte, error) {
			return inv.LocalSet(a.Key, a.Value, a.version())
		})},
		{name: "local_delete", do: keyed(func(_ context.Context, inv *invoke.Invocation, a *keyArg) ([]byte, error) {
			return inv.LocalDelete(a.Key)
		})},
		{name: "local_add", do: keyed(func(_ context.Context, inv *invoke.Invocation, a *keyArg) ([]byte, error) {
			return inv.LocalAdd(a.Key, a.delta())
		})},
		{name: "emit", do: userEmit},
		{
			name: "config",
			bare: true,
			do:   func(_ context.Context, inv *invoke.Invocation, _ []byte) ([]byte, error) { return inv.Config, nil },
		},
		{name: "model", waits: true, do: func(ctx context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
			return inv.Model(ctx, arg)
		}},
		{name: "tool", waits: true, do: func(ctx context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
			return inv.Tool(ctx, arg)
		}},
		{name: "http", waits: true, do: func(ctx context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
			return inv.HTTP(ctx, arg)
		}},
		{
			name:  "store_get",
			waits: true,
			do: keyed(func(ctx context.Context, inv *invoke.Invocation, a *keyArg) ([]byte, error) {
				return inv.StoreGet(ctx, a.Key)
			}),
		},
		{
			name:  "store_set",
			waits: true,
			do: keyed(func(ctx context.Context, inv *invoke.Invocation, a *keyArg) ([]byte, error) {
				return inv.StoreSet(ctx, a.Key, a.Value, a.version(), a.TTL)
			}),
		},
		{
			name:  "store_delete",
			waits: true,
			do: keyed(func(ctx context.Context, inv *invoke.Invocation, a *keyArg) ([]byte, error) {
				return inv.StoreDelete(ctx, a.Key)
			}),
		},
		{
			name:  "store_add",
			waits: true,
			do: keyed(func(ctx context.Context, inv *invoke.Invocation, a *keyArg) ([]byte, error) {
				return inv.StoreAdd(ctx, a.Key, a.delta())
			}),
		},
	}
	return rows
}

// userImports returns the imports of extism:host/user. Each costs as much fuel as the native import
// of the same name.
func userImports() []invoke.Import {
	var out []invoke.Import
	rows := userFunctions()
	for _, n := range plain.Imports() {
		i := slices.IndexFunc(rows, func(row userFunction) bool { return row.name == n.Name })
		if i < 0 {
			continue
		}
		row := &rows[i]
		row.fuel = n.Fuel
		n.Module, n.Params, n.Results, n.Func = UserModule, invoke.ValueTypes(row.params()), invoke.ValueTypes("I"), row.call
		out = append(out, n)
	}
	return out
}

func (row *userFunction) params() string {
	if row.bare {
		return ""
	}
	return "I"
}

// call implements the import for the sandbox.
func (row *userFunction) call(ctx context.Context, g *sandbox.Guest, stack []uint64) {
	inv := invoke.Of(ctx)
	inv.Begin(g, row.fuel)
	inv.DropReply()
	p := pluginOf(inv)
	var arg []byte
	if !row.bare {
		arg = p.take(inv, g, row.name, stack[0])
	}
	reply, err := row.reply(ctx, inv, arg)
	if row.waits {
		g.Tick()
	}
	n := inv.SetReply(g, reply, err)
	reply = inv.Pending
	switch {
	case n < 0:
		reply = slices.Concat([]byte(`{"error":`), reply, []byte(`}`))
	case n == 0:
		reply = []byte("{}")
	}
	stack[0] = p.give(inv, g, reply)
	inv.End()
}

func (row *userFunction) reply(ctx context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
	if err := inv.CheckAvailable(row.name); err != nil {
		return nil, err
	}
	return row.do(ctx, inv, arg)
}

// argument decodes the argument of a function. An empty argument counts as {}.
func argument(inv *invoke.Invocation, arg []byte, out any) error {
	if len(arg) == 0 {
		arg = []byte("{}")
	}
	return inv.Decode("the argument", arg, out)
}

type listArg struct {
	List     int    `json:"list"`
	From     int    `json:"from"`
	To       *int   `json:"to"`
	Revision *int64 `json:"revision"`
}

func userMessages(_ context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
	var a listArg
	if err := argument(inv, arg, &a); err != nil {
		return nil, err
	}
	const limit = 1<<31 - 1 // larger bounds are clamped
	to := limit
	if a.To != nil {
		to = min(*a.To, limit)
	}
	return inv.Messages(a.List, a.From, to)
}

func userChanged(_ context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
	var a listArg
	if err := argument(inv, arg, &a); err != nil {
		return nil, err
	}
	if a.Revision == nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "the argument has no revision"}
	}
	first, err := inv.Changed(a.List, *a.Revision)
	if err != nil {
		return nil, err
	}
	return strconv.AppendInt(nil, int64(first), 10), nil
}

// A keyArg is the argument of a function with a key.
type keyArg struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Version *int64          `json:"version"` // defaults to always
	Delta   *int64          `json:"delta"`   // defaults to 1
	TTL     int64           `json:"ttl"`     // in seconds; 0 keeps the value forever
}

func (a *keyArg) version() int64 {
	if a.Version == nil {
		return abi.LocalAlways
	}
	return *a.Version
}

func (a *keyArg) delta() int64 {
	if a.Delta == nil {
		return 1
	}
	return *a.Delta
}

// keyed returns a function that decodes its argument as a keyArg and calls do with it. The function
// returns an error for a key of more than [contract.MaxKey] bytes.
func keyed(
	do func(ctx context.Context, inv *invoke.Invocation, a *keyArg) ([]byte, error),
) func(context.Context, *invoke.Invocation, []byte) ([]byte, error) {
	return func(ctx context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
		var a keyArg
		if err := argument(inv, arg, &a); err != nil {
			return nil, err
		}
		if len(a.Key) > contract.MaxKey {
			return nil, &abi.Error{
				Code:    abi.CodeLimit,
				Message: fmt.Sprintf("a key of %d bytes; at most %d are allowed", len(a.Key), contract.MaxKey),
			}
		}
		return do(ctx, inv, &a)
	}
}

func userEmit(_ context.Context, inv *invoke.Invocation, arg []byte) ([]byte, error) {
	if err := invoke.CheckEvent(len(arg)); err != nil {
		return nil, err
	}
	return inv.Emit(arg)
}
