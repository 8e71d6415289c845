package module

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// A userImport is a host call of the ABI as a function of extism:host/user. It
// takes the offset of a block with JSON, if it takes anything, and returns one of
// a block with the reply: what the ABI says, {} where that has no bytes, or
// {"error": {…}}.
type userImport struct {
	name string
	bare bool // it takes nothing
	// waits says that time may go by, which the guest's clock shows then.
	waits bool
	fuel  fuelClass // of the native import of the same name
	// do makes the call. The rules of when it may be called
	// are those of the native import of the same name.
	do func(ctx context.Context, v *visit, arg []byte) ([]byte, error)
}

// userImports are all functions of extism:host/user, in the order of the ABI's
// table. What is read, written and logged goes through extism:host/env.
func userImports() []userImport {
	rows := []userImport{
		{name: "next", waits: true, do: func(ctx context.Context, v *visit, arg []byte) ([]byte, error) { return v.next(ctx, arg) }},
		{name: "next_stream", waits: true, do: func(ctx context.Context, v *visit, arg []byte) ([]byte, error) { return v.nextStream(ctx, arg) }},
		{name: "recv", bare: true, waits: true, do: func(ctx context.Context, v *visit, _ []byte) ([]byte, error) { return v.recv(ctx) }},
		{name: "send", waits: true, do: func(ctx context.Context, v *visit, arg []byte) ([]byte, error) { return v.send(ctx, arg) }},
		{name: "messages", do: userMessages},
		{name: "changed", do: userChanged},
		{name: "local_get", do: keyed(func(_ context.Context, v *visit, a *keyArg) ([]byte, error) { return v.localGet(a.Key) })},
		{name: "local_set", do: keyed(func(_ context.Context, v *visit, a *keyArg) ([]byte, error) {
			return v.localSet(a.Key, a.Value, a.version())
		})},
		{name: "local_delete", do: keyed(func(_ context.Context, v *visit, a *keyArg) ([]byte, error) { return v.localDelete(a.Key) })},
		{name: "local_add", do: keyed(func(_ context.Context, v *visit, a *keyArg) ([]byte, error) { return v.localAdd(a.Key, a.delta()) })},
		{name: "emit", do: userEmit},
		{name: "config", bare: true, do: func(_ context.Context, v *visit, _ []byte) ([]byte, error) { return v.config, nil }},
		{name: "model", waits: true, do: func(ctx context.Context, v *visit, arg []byte) ([]byte, error) { return v.model(ctx, arg) }},
		{name: "tool", waits: true, do: func(ctx context.Context, v *visit, arg []byte) ([]byte, error) { return v.tool(ctx, arg) }},
		{name: "http", waits: true, do: func(ctx context.Context, v *visit, arg []byte) ([]byte, error) { return v.http(ctx, arg) }},
		{name: "store_get", waits: true, do: keyed(func(ctx context.Context, v *visit, a *keyArg) ([]byte, error) { return v.storeGet(ctx, a.Key) })},
		{name: "store_set", waits: true, do: keyed(func(ctx context.Context, v *visit, a *keyArg) ([]byte, error) {
			return v.storeSet(ctx, a.Key, a.Value, a.version(), a.TTL)
		})},
		{name: "store_delete", waits: true, do: keyed(func(ctx context.Context, v *visit, a *keyArg) ([]byte, error) { return v.storeDelete(ctx, a.Key) })},
		{name: "store_add", waits: true, do: keyed(func(ctx context.Context, v *visit, a *keyArg) ([]byte, error) {
			return v.storeAdd(ctx, a.Key, a.delta())
		})},
	}
	for i := range rows {
		for _, native := range nativeImports() {
			if native.name == rows[i].name {
				rows[i].fuel = native.fuel
			}
		}
	}
	return rows
}

func (row *userImport) params() string {
	if row.bare {
		return ""
	}
	return "I"
}

// call is the import as the sandbox calls it.
func (row *userImport) call(ctx context.Context, g *sandbox.Guest, stack []uint64) {
	v := visitOf(ctx)
	v.inside, v.guest = true, g // and it stays inside if the guest ends in here
	if err := v.count(); err != nil {
		g.Abort(err)
	}
	v.forget()
	v.chargeCall(g, row.fuel)
	p := v.asPlugin()
	var arg []byte
	if !row.bare {
		arg = p.take(v, g, row.name, stack[0])
	}
	reply, err := row.reply(ctx, v, arg)
	if row.waits {
		g.Tick()
	}
	n := v.settle(g, reply, err)
	reply = v.pending
	switch {
	case n < 0:
		reply = slices.Concat([]byte(`{"error":`), reply, []byte(`}`))
	case n == 0:
		reply = rawObject
	}
	stack[0] = p.give(v, g, reply)
	v.inside = false
}

func (row *userImport) reply(ctx context.Context, v *visit, arg []byte) ([]byte, error) {
	if err := v.may(row.name); err != nil {
		return nil, err
	}
	return row.do(ctx, v, arg)
}

// argument reads what a function was given.
func (v *visit) argument(arg []byte, out any) error {
	if len(arg) == 0 {
		arg = rawObject
	}
	return v.decode("the argument", arg, out)
}

type listArg struct {
	List     int    `json:"list"`
	From     int    `json:"from"`
	To       *int   `json:"to"`
	Revision *int64 `json:"revision"`
}

func userMessages(_ context.Context, v *visit, arg []byte) ([]byte, error) {
	var a listArg
	if err := v.argument(arg, &a); err != nil {
		return nil, err
	}
	const most = 1<<31 - 1 // bounds are clamped
	to := most
	if a.To != nil {
		to = min(*a.To, most)
	}
	return v.messages(nil, a.List, a.From, to)
}

func userChanged(_ context.Context, v *visit, arg []byte) ([]byte, error) {
	var a listArg
	if err := v.argument(arg, &a); err != nil {
		return nil, err
	}
	if a.Revision == nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "the argument has no revision"}
	}
	first, err := v.changed(a.List, *a.Revision)
	if err != nil {
		return nil, err
	}
	return strconv.AppendInt(nil, int64(first), 10), nil
}

// A keyArg is the argument of what has a key.
type keyArg struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Version *int64          `json:"version"` // none: always
	Delta   *int64          `json:"delta"`   // none: 1
	TTL     int64           `json:"ttl"`     // seconds; 0: none
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

func keyed(do func(ctx context.Context, v *visit, a *keyArg) ([]byte, error)) func(context.Context, *visit, []byte) ([]byte, error) {
	return func(ctx context.Context, v *visit, arg []byte) ([]byte, error) {
		var a keyArg
		if err := v.argument(arg, &a); err != nil {
			return nil, err
		}
		if len(a.Key) > abi.MaxKey {
			return nil, &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("a key of %d bytes; at most %d are allowed", len(a.Key), abi.MaxKey)}
		}
		return do(ctx, v, &a)
	}
}

func userEmit(_ context.Context, v *visit, arg []byte) ([]byte, error) {
	if len(arg) > maxEmit {
		return nil, tooLargeEvent(len(arg))
	}
	return v.emit(arg)
}
