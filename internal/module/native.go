package module

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// native is the transport of the ABI itself: hooks are exports of type
// (input_len: i32) -> i32, and host calls are imports that leave their reply
// pending for read.
type native struct{}

func (native) name() string { return "native" }

func (native) holds(*Limits) int64 { return 0 }

func (native) hook() sandbox.FuncType { return nativeHook }

func (native) start(context.Context, *sandbox.Instance, *visit) error { return nil }

func (native) pack(context.Context, *sandbox.Instance, *visit) error { return nil }

func (native) readable(text string) string { return text }

func (native) call(ctx context.Context, in *sandbox.Instance, v *visit) (failed bool, err error) {
	results, err := in.Call(v.context(ctx), string(v.hook), api.EncodeI32(int32(len(v.pending))))
	if err != nil {
		return false, err
	}
	switch n := api.DecodeI32(results[0]); n {
	case 0:
		return false, nil
	case 1:
		return true, nil
	default:
		return false, &answerError{fmt.Sprintf("returned %d; want 0 for done or 1 for failed", n)}
	}
}

var nativeHook = sandbox.FuncType{Params: []api.ValueType{api.ValueTypeI32}, Results: []api.ValueType{api.ValueTypeI32}}

// A nativeImport is one row of the ABI's table of imports.
type nativeImport struct {
	name   string
	params string // a letter each: i is an i32, I an i64
	result string // the same
	does   string // the power, in words
	grant  string // without which it is denied
	fuel   fuelClass

	// do makes the host call. It is called only where there is a run, or a
	// configuration for config.
	do func(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) (reply []byte, err error)
	// raw stands in the place of do for imports that leave no reply.
	raw func(v *visit, g *sandbox.Guest, p []uint64)
}

// nativeImports are all functions of the ABI, in the order of its table.
func nativeImports() []nativeImport {
	return []nativeImport{
		{name: "read", params: "ii", result: "i", raw: nativeRead, does: "read its input and the replies of host calls"},
		{name: "write", params: "ii", raw: nativeWrite, does: "answer"},
		{name: "next", params: "ii", result: "i", do: nativeNext, fuel: fuelRecord, does: "run what it wraps, also several times or not at all"},
		{name: "next_stream", params: "ii", result: "i", do: nativeNextStream, fuel: fuelRecord, does: "open the stream of what it wraps"},
		{name: "recv", result: "i", do: nativeRecv, does: "read the stream of what it wraps"},
		{name: "send", params: "ii", result: "i", do: nativeSend, fuel: fuelRecord, does: "send chunks of its own"},
		{name: "messages", params: "iii", result: "i", do: nativeMessages, does: "read the conversation, as far as it is granted"},
		{name: "changed", params: "iI", result: "i", raw: nativeChanged, does: "learn where the conversation has changed"},
		{name: "local_get", params: "ii", result: "i", do: nativeLocalGet, does: "read run-local values"},
		{name: "local_set", params: "iiiiI", result: "i", do: nativeLocalSet, fuel: fuelValue, does: "keep run-local values"},
		{name: "local_delete", params: "ii", result: "i", do: nativeLocalDelete, fuel: fuelValue, does: "delete run-local values"},
		{name: "local_add", params: "iiI", result: "i", do: nativeLocalAdd, fuel: fuelValue, does: "count in run-local values"},
		{name: "emit", params: "ii", result: "i", do: nativeEmit, fuel: fuelRecord, does: "send events of its own"},
		{name: "config", result: "i", do: nativeConfig, does: "read its configuration"},
		{name: "log", params: "iii", raw: nativeLog, fuel: fuelRecord, does: "log"},
		{name: "model", params: "ii", result: "i", grant: "model", do: nativeModel, fuel: fuelRecord, does: "call a model"},
		{name: "tool", params: "ii", result: "i", grant: "tool:NAME", do: nativeTool, fuel: fuelRecord, does: "call tools of the agent"},
		{name: "http", params: "ii", result: "i", grant: "http:HOST", do: nativeHTTP, does: "send HTTP requests"},
		{name: "store_get", params: "ii", result: "i", grant: "store", do: nativeStoreGet, does: "read durable values"},
		{name: "store_set", params: "iiiiII", result: "i", grant: "store", do: nativeStoreSet, fuel: fuelRecord, does: "keep durable values"},
		{name: "store_delete", params: "ii", result: "i", grant: "store", do: nativeStoreDelete, fuel: fuelRecord, does: "delete durable values"},
		{name: "store_add", params: "iiI", result: "i", grant: "store", do: nativeStoreAdd, fuel: fuelRecord, does: "count in durable values"},
	}
}

// surface is what native modules may import and how their hooks are typed.
func surface() sandbox.Surface {
	s := sandbox.Surface{Name: "ABI version 1"}
	for _, row := range nativeImports() {
		s.Imports = append(s.Imports, sandbox.Import{
			Module: abi.ImportModule, Name: row.name,
			Params: valueTypes(row.params), Results: valueTypes(row.result),
			Func: row.call,
		})
	}
	s.Imports = append(s.Imports, scriptImport())
	for _, row := range extismImports() {
		s.Imports = append(s.Imports, sandbox.Import{
			Module: extismEnv, Name: row.name,
			Params: valueTypes(row.params), Results: valueTypes(row.result),
			Quick: row.quick != nil, Func: row.call,
		})
	}
	for _, row := range userImports() {
		s.Imports = append(s.Imports, sandbox.Import{
			Module: extismUser, Name: row.name,
			Params: valueTypes(row.params()), Results: valueTypes("I"),
			Func: row.call,
		})
	}
	s.Exports = checkHooks
	return s
}

// checkHooks holds exports against the type of the hooks of the transport that
// the imports are of.
func checkHooks(imports []sandbox.ImportInfo) (sandbox.CheckExport, error) {
	want := nativeHook
	switch isExtism, isNative := importsOf(imports); {
	case isExtism && isNative:
		return nil, &sandbox.RefusedError{
			Reason: fmt.Sprintf("imports %s and Extism's functions too; a module is of one kind", abi.ImportModule),
			Fix:    fmt.Sprintf("an Extism plug-in makes the host calls of the ABI by %s", extismUser),
		}
	case isExtism:
		want = extismHook
	}
	return func(name string) (sandbox.FuncType, bool) { return want, abi.Hook(name).Known() }, nil
}

func valueTypes(letters string) []api.ValueType {
	types := make([]api.ValueType, len(letters))
	for i := range letters {
		types[i] = api.ValueTypeI32
		if letters[i] == 'I' {
			types[i] = api.ValueTypeI64
		}
	}
	return types
}

// call is the import as the sandbox calls it.
func (row *nativeImport) call(ctx context.Context, g *sandbox.Guest, p []uint64) {
	v := visitOf(ctx)
	v.inside, v.guest = true, g // and it stays inside if the guest ends in here
	if err := v.count(); err != nil {
		g.Abort(err)
	}
	v.chargeCall(g, row.fuel)
	if row.raw != nil {
		row.raw(v, g, p)
	} else {
		v.forget()
		reply, err := row.reply(ctx, v, g, p)
		p[0] = api.EncodeI32(v.settle(g, reply, err))
	}
	v.inside = false
}

func (row *nativeImport) reply(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	if err := v.may(row.name); err != nil {
		return nil, err
	}
	return row.do(ctx, v, g, p)
}

// may tells why a host call cannot be made at all, if so: there is no run, or,
// for config, no configuration.
func (v *visit) may(name string) error {
	if v.running() || name == "config" && v.config != nil {
		return nil
	}
	return errBuilding(name)
}

func errBuilding(name string) error {
	return &abi.Error{Code: abi.CodeUnavailable, Message: name + " is not available while the module's image is built"}
}

// settle leaves the outcome of a host call pending, and returns its length:
// negative for an error. What ends the run ends the guest here.
func (v *visit) settle(g *sandbox.Guest, reply []byte, err error) int32 {
	if err != nil && (chain.IsEnding(err) || errors.Is(err, errDiverged)) {
		g.Abort(err)
	}
	if err == nil && len(reply) > v.limits.ReplyBytes {
		err = &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("the reply has %d bytes, more than the limit reply_bytes of %d", len(reply), v.limits.ReplyBytes)}
	}
	if err == nil {
		if full := v.holdReply(len(reply)); full != nil {
			err = &abi.Error{Code: abi.CodeLimit, Message: "the reply: " + full.Error()}
		}
	}
	if err == nil {
		v.chargeReply(g, len(reply))
		v.pending = reply
		return int32(len(reply))
	}
	if v.pending, err = abi.Marshal(chain.AsError(err, abi.CodeInternal)); err != nil {
		g.Abort(err)
	}
	return -int32(len(v.pending))
}

// take copies what the guest hands over from its memory.
func (v *visit) take(g *sandbox.Guest, what string, ptr, n uint64) []byte {
	return v.takeInto(nil, g, what, ptr, n)
}

// takeBriefly is take of what nobody keeps, nor looks at when more is taken so.
func (v *visit) takeBriefly(g *sandbox.Guest, what string, ptr, n uint64) []byte {
	return v.takeInto(&v.takeRoom, g, what, ptr, n)
}

// takeInto is take into a room, if there is one and what is taken is not recorded.
func (v *visit) takeInto(room *[]byte, g *sandbox.Guest, what string, ptr, n uint64) []byte {
	if n == 0 {
		return nil
	}
	if !holds(g, ptr, n) {
		g.Read(uint32(ptr), uint32(n)) // does not return
	}
	if n > uint64(v.limits.OutputBytes) {
		g.Abort(&limitError{"output_bytes", v.limits.OutputBytes, fmt.Sprintf("%s: %d bytes", what, n), ""})
	}
	v.chargeBytes(g, int(n))
	v.bytesOut += int64(n)
	if err := v.holdTaken(room, int(n)); err != nil {
		g.Abort(err)
	}
	if room == nil || v.recorder != nil {
		return g.Read(uint32(ptr), uint32(n))
	}
	*room = g.ReadInto(*room, uint32(ptr), uint32(n))
	return *room
}

// holdTaken counts n bytes that are taken: an answer, until the next one, or what is
// handed to a host call, with what is decoded from it.
func (v *visit) holdTaken(room *[]byte, n int) error {
	if room != &v.outputRoom {
		return v.holdReply(2 * n)
	}
	if err := v.hold(int64(n) - v.heldOutput); err != nil {
		return err
	}
	v.heldOutput = int64(n)
	return nil
}

// holds reports whether n bytes at ptr lie in the guest's memory.
func holds(g *sandbox.Guest, ptr, n uint64) bool { return ptr+n <= uint64(g.MemorySize()) }

func (v *visit) takeKey(g *sandbox.Guest, ptr, n uint64) (string, error) {
	if n > abi.MaxKey && holds(g, ptr, n) {
		return "", &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("a key of %d bytes; at most %d are allowed", n, abi.MaxKey)}
	}
	key := v.takeBriefly(g, "key", ptr, n)
	if !utf8.Valid(key) {
		return "", &abi.Error{Code: abi.CodeInvalid, Message: "the key is not valid UTF-8"}
	}
	return string(key), nil
}

// number is a parameter that is a signed i32.
func number(p uint64) int { return int(api.DecodeI32(p)) }

// u32 is a parameter that is a pointer or a length.
func u32(p uint64) uint64 { return uint64(api.DecodeU32(p)) }

func nativeRead(v *visit, g *sandbox.Guest, p []uint64) {
	n := min(uint64(len(v.pending)), u32(p[1]))
	if n > 0 {
		g.Write(uint32(u32(p[0])), v.pending[:n])
		v.bytesIn += int64(n)
	}
	p[0] = n
}

func nativeWrite(v *visit, g *sandbox.Guest, p []uint64) {
	v.output = v.takeInto(&v.outputRoom, g, "the answer", u32(p[0]), u32(p[1]))
}

func nativeLog(v *visit, g *sandbox.Guest, p []uint64) {
	level, ptr, n := api.DecodeI32(p[0]), u32(p[1]), u32(p[2])
	if !holds(g, ptr, n) {
		g.Read(uint32(ptr), uint32(n)) // does not return
	}
	v.say(g, level, int(n), func(keep int) []byte { return g.Read(uint32(ptr), uint32(keep)) })
}

// say logs a text of n bytes, of which read returns the first ones.
func (v *visit) say(g *sandbox.Guest, level int32, n int, read func(keep int) []byte) {
	keep := v.room(n)
	if keep == 0 && n > 0 {
		return
	}
	v.chargeBytes(g, keep)
	text := read(keep)
	v.bytesOut += int64(keep)
	if keep < n {
		text = fmt.Appendf(text, "… (%d bytes more)", n-keep)
	}
	shown := v.readable(string(text))
	v.remember(shown)
	v.wait(func() { v.log(level, shown) })
}

// nativeChanged returns the index itself, which is no length.
func nativeChanged(v *visit, g *sandbox.Guest, p []uint64) {
	v.pending = nil
	err := errBuilding("changed")
	first := 0
	if v.running() {
		first, err = v.changed(number(p[0]), int64(p[1]))
	}
	if err != nil {
		p[0] = api.EncodeI32(v.settle(g, nil, err))
		return
	}
	p[0] = api.EncodeI32(int32(first))
}

func nativeNext(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := v.next(ctx, v.takeBriefly(g, "next", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}

func nativeMessages(_ context.Context, v *visit, _ *sandbox.Guest, p []uint64) ([]byte, error) {
	var room []byte
	if v.recorder == nil { // which keeps the reply
		room = v.replyRoom[:0]
	}
	reply, err := v.messages(room, number(p[0]), number(p[1]), number(p[2]))
	if err == nil && v.replay == nil {
		v.replyRoom = reply
	}
	return reply, err
}

func nativeLocalGet(_ context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := v.takeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	return v.localGet(key)
}

func nativeLocalSet(_ context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := v.takeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	return v.localSet(key, v.takeBriefly(g, "local_set", u32(p[2]), u32(p[3])), int64(p[4]))
}

func nativeLocalDelete(_ context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := v.takeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	return v.localDelete(key)
}

func nativeLocalAdd(_ context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := v.takeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	return v.localAdd(key, int64(p[2]))
}

func nativeEmit(_ context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	ptr, n := u32(p[0]), u32(p[1])
	if n > maxEmit && holds(g, ptr, n) {
		return nil, tooLargeEvent(int(n))
	}
	return v.emit(v.take(g, "emit", ptr, n))
}

func nativeConfig(_ context.Context, v *visit, _ *sandbox.Guest, _ []uint64) ([]byte, error) {
	return v.config, nil
}

func tooLargeEvent(n int) error {
	return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("emit: an event of %d bytes; at most %d are allowed", n, maxEmit)}
}
