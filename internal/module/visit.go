package module

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// A visit is one call of a module's export: what the host keeps of it while
// the guest's code runs. It belongs to the goroutine of that call.
//
// Its methods are the host calls of the ABI without the form in which a
// transport makes them. They return *abi.Error for what the guest is to see.
type visit struct {
	hook   abi.Hook
	limits *Limits
	call   *chain.Call     // nil while the image is built
	config json.RawMessage // nil while it is not to be had
	grants Grants
	logTo  func(level int32, text string) // nil: to the call
	// transport makes what the guest logs better to read; nil: it stays as it is.
	transport transport
	now       int64 // what the guest's clock shows, in nanoseconds

	input []byte
	// What determines the guest's random bytes: seed, or that it is the nth call of session.
	seed    string
	session *session
	nth     int64

	entered  bool           // the guest was called
	inside   bool           // a host call is under way, or ended the guest
	guest    *sandbox.Guest // once it has made a host call
	recorder *recorder
	replay   *player // answers the guest in the host's place
	report   sandbox.Report
	grown    int64 // bytes of memory
	ended    error // what the call came to

	plugin   *plugin         // of a call of an Extism plug-in
	settings json.RawMessage // the configuration, which such a one finds also while its image is built

	pending   []byte
	output    []byte
	hostCalls int
	polls     int64      // of a script, whether it is over
	over      *overLimit // that made the answer yes
	logged    int        // bytes
	recent    []string
	bytesIn   int64 // copied to the guest
	bytesOut  int64 // copied from it

	// What the call holds of the last host call and of the answer, in bytes.
	heldReply, heldOutput int64

	inputRoom, replyRoom []byte // for its input, and for replies with messages: nobody keeps them
	outputRoom, takeRoom []byte // for its answer, and what it hands to host calls
}

// visits are such as are used again, with their rooms.
var visits = sync.Pool{New: func() any { return new(visit) }}

// mostRoom is how large a room may be that is used again, in bytes.
const mostRoom = 64 << 10

// newVisit returns a visit that is to be given back.
func newVisit() *visit { return visits.Get().(*visit) }

// giveBack ends a visit, which nobody looks at any more. What is recorded is kept, and
// its context may be: by a tool that did not end with its call.
func (v *visit) giveBack() {
	if v.recorder != nil {
		return
	}
	*v = visit{inputRoom: again(v.inputRoom), replyRoom: again(v.replyRoom), outputRoom: again(v.outputRoom), takeRoom: again(v.takeRoom)}
	visits.Put(v)
}

// again is a room that is used again, or none if it has become too large.
func again(room []byte) []byte {
	if cap(room) > mostRoom {
		return nil
	}
	return room[:0]
}

// hold counts n bytes that the host holds for the call while it lasts; see [chain.Call.Hold].
// The error is a [*limitError].
func (v *visit) hold(n int64) error {
	if v.call == nil {
		return nil
	}
	err := v.call.Hold(n)
	if err == nil {
		return nil
	}
	if full := (*chain.Fault)(nil); errors.As(err, &full) {
		return &limitError{limit: full.Limit, most: int(full.Value), what: full.Cause.Error()}
	}
	return err
}

// holdReply counts what the guest hands to a host call, or its reply, until the next one.
func (v *visit) holdReply(n int) error {
	if err := v.hold(int64(n)); err != nil {
		return err
	}
	v.heldReply += int64(n)
	return nil
}

// forget drops what the call holds of the last host call.
func (v *visit) forget() {
	v.pending = nil // what is handed over must not see an older reply
	v.replyRoom, v.takeRoom = again(v.replyRoom), again(v.takeRoom)
	_ = v.hold(-v.heldReply)
	v.heldReply = 0
}

// log logs a text of the guest's, or about it.
func (v *visit) log(level int32, text string) {
	switch {
	case v.logTo != nil:
		v.logTo(level, text)
	case v.call != nil:
		v.wait(func() { v.call.Log(level, text) })
	}
}

// readable makes what the guest logs better to read.
func (v *visit) readable(text string) string {
	if v.transport == nil {
		return text
	}
	return v.transport.readable(text)
}

// randomSeed determines the guest's random bytes.
func (v *visit) randomSeed() string {
	if v.session == nil {
		return v.seed
	}
	return strconv.Quote(v.session.run) + " " + strconv.Quote(v.session.entry) + " " + strconv.FormatInt(v.nth, 10)
}

type visitKey struct{}

// A visitContext is a context with a visit in it.
type visitContext struct {
	context.Context
	v *visit
}

// Value finds the visit, and whatever the context has.
func (c *visitContext) Value(key any) any {
	if key == (visitKey{}) {
		return c.v
	}
	return c.Context.Value(key)
}

// context returns ctx with the visit in it, where imports find it.
func (v *visit) context(ctx context.Context) context.Context {
	return &visitContext{ctx, v}
}

func visitOf(ctx context.Context) *visit { return ctx.Value(visitKey{}).(*visit) }

// clock is what the guest's clock shows, in nanoseconds: that of the input,
// and the host's again after each next.
func (v *visit) clock() int64 {
	if v.replay != nil {
		return v.replay.clock()
	}
	v.recorder.clock(v.now)
	return v.now
}

// running reports whether there is a run that host calls can ask.
func (v *visit) running() bool { return v.call != nil || v.replay != nil }

// ask makes a host call that the run answers, or what a bundle recorded did.
//
// What it is, q tells, which is asked only where calls are recorded or replayed.
func (v *visit) ask(q func() HostCall, do func() ([]byte, error)) ([]byte, error) {
	if v.replay != nil {
		call := q()
		return v.replay.answer(&call)
	}
	reply, err := do()
	if v.recorder != nil {
		v.recorder.add(q(), reply, err)
	}
	return reply, err
}

// print takes a line that the guest printed.
func (v *visit) print(line []byte) {
	text := v.readable(string(line))
	v.remember(text)
	v.log(abi.LogInfo, text)
}

// count counts a host call.
func (v *visit) count() error {
	if v.hostCalls++; v.hostCalls > v.limits.HostCalls {
		return &limitError{"host_calls", v.limits.HostCalls, fmt.Sprintf("host call %d", v.hostCalls), ""}
	}
	return nil
}

// room says how much of a log text of n bytes there is room for.
func (v *visit) room(n int) int {
	left := v.limits.LogBytes - v.logged
	v.logged += n
	if left > 0 && n > left {
		v.log(abi.LogWarn, fmt.Sprintf("further text of this hook's log is dropped: more than the limit log_bytes of %d", v.limits.LogBytes))
	}
	return max(0, min(n, left, v.limits.LogLineBytes))
}

// next runs what the hook wraps with a patch, empty for none.
func (v *visit) next(ctx context.Context, patch []byte) ([]byte, error) {
	return v.ask(func() HostCall { return HostCall{Name: "next", Bytes: []Blob{patch}} }, func() ([]byte, error) {
		defer v.look()
		switch v.hook {
		case abi.HookWrapModel:
			var p abi.RequestPatch
			if err := v.decode("next: patch of the request", patch, &p); err != nil {
				return nil, err
			}
			var res *abi.Response
			var err error
			v.wait(func() { res, err = v.call.NextModel(ctx, p) })
			if err != nil {
				return nil, err
			}
			return abi.Marshal(&abi.ModelReply{Response: res})
		case abi.HookWrapToolCall:
			p, err := v.callPatch("next: patch of the call", patch)
			if err != nil {
				return nil, err
			}
			var res *abi.Result
			v.wait(func() { res, err = v.call.NextTool(ctx, p) })
			if err != nil {
				return nil, err
			}
			return abi.Marshal(&abi.ToolReply{Result: res})
		default:
			_, err := v.call.Next(ctx, nil) // says why not
			return nil, err
		}
	})
}

// decode reads what the guest hands to a host call; nothing leaves out as it is.
func (v *visit) decode(what string, b []byte, out any) error {
	if len(b) == 0 {
		return nil
	}
	unknown, err := abi.DecodeUntil(b, out, v.stop)
	if err != nil {
		return &abi.Error{Code: abi.CodeInvalid, Message: what + ": " + err.Error()}
	}
	v.tellUnknown(what, unknown)
	return nil
}

// callPatch reads a patch of a tool call. Arguments are looked through here, in the
// guest's time, for as long as the chain will: what that does, the guest waits for.
// What is wrong with them is the chain's to say.
func (v *visit) callPatch(what string, patch []byte) (p abi.CallPatch, err error) {
	if err = v.decode(what, patch, &p); err == nil && p.Arguments != nil {
		_ = abi.ValidUntil([]byte(*p.Arguments), v.stop)
	}
	return p, err
}

func (v *visit) tellUnknown(what string, keys []string) {
	for _, key := range keys {
		v.log(abi.LogWarn, fmt.Sprintf("%s: unknown key %s", what, key))
	}
}

// messages are those of a list, behind room.
func (v *visit) messages(room []byte, list, from, to int) ([]byte, error) {
	return v.ask(func() HostCall {
		return HostCall{Name: "messages", Numbers: []int64{int64(list), int64(from), int64(to)}}
	}, func() ([]byte, error) {
		return v.call.AppendMessages(room, list, from, to, v.limits.ReplyBytes)
	})
}

func (v *visit) changed(list int, revision int64) (int, error) {
	reply, err := v.ask(func() HostCall { return HostCall{Name: "changed", Numbers: []int64{int64(list), revision}} }, func() ([]byte, error) {
		first, err := v.call.Changed(list, revision)
		return strconv.AppendInt(nil, int64(first), 10), err
	})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(reply))
}

func (v *visit) localGet(key string) ([]byte, error) {
	return v.ask(func() HostCall { return HostCall{Name: "local_get", Bytes: []Blob{Blob(key)}} }, func() ([]byte, error) {
		value, ok, err := v.call.LocalGet(key)
		if err != nil || !ok {
			return nil, err
		}
		b := append(make([]byte, 0, len(value.Value)+40), `{"value":`...)
		b = abi.Append(b, value.Value)
		b = append(b, `,"version":`...)
		return append(strconv.AppendInt(b, value.Version, 10), '}'), nil
	})
}

func (v *visit) localSet(key string, value []byte, version int64) ([]byte, error) {
	return v.ask(func() HostCall {
		return HostCall{Name: "local_set", Bytes: []Blob{Blob(key), value}, Numbers: []int64{version}}
	}, func() ([]byte, error) {
		if len(value) > quickly {
			v.call.Until(v.stop)
		}
		now, err := v.call.LocalSet(key, value, version)
		if err != nil {
			return nil, err
		}
		return append(strconv.AppendInt([]byte(`{"version":`), now, 10), '}'), nil
	})
}

func (v *visit) localDelete(key string) ([]byte, error) {
	return v.ask(func() HostCall { return HostCall{Name: "local_delete", Bytes: []Blob{Blob(key)}} }, func() ([]byte, error) {
		return nil, v.call.LocalDelete(key)
	})
}

func (v *visit) localAdd(key string, delta int64) ([]byte, error) {
	return v.ask(func() HostCall { return HostCall{Name: "local_add", Bytes: []Blob{Blob(key)}, Numbers: []int64{delta}} }, func() ([]byte, error) {
		sum, err := v.call.LocalAdd(key, delta)
		if err != nil {
			return nil, err
		}
		return abi.Marshal(sum)
	})
}

// wait calls what may have to wait for somebody: its time is not the guest's.
func (v *visit) wait(fn func()) {
	if v.guest == nil {
		fn()
		return
	}
	v.guest.Wait(fn)
}

// quickly is how many bytes of JSON are read before anybody is asked whether to stop.
const quickly = 16 << 10

// stop ends the guest in the middle of a host call that works for long, if its
// time is over; then it does not return.
func (v *visit) stop() error {
	if v.guest != nil {
		v.guest.Look()
	}
	return nil
}

// maxEmit bounds the JSON of one event, in bytes, before it is copied.
const maxEmit = 1 << 20

func (v *visit) emit(b []byte) ([]byte, error) {
	return v.ask(func() HostCall { return HostCall{Name: "emit", Bytes: []Blob{b}} }, func() ([]byte, error) {
		defer v.look()
		var e abi.Custom
		unknown, err := abi.DecodeUntil(b, &e, v.stop)
		switch {
		case err != nil:
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: "emit: " + err.Error()}
		case len(unknown) > 0:
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("emit: unknown key %s; want name and data", unknown[0])}
		}
		v.wait(func() { err = v.call.Emit(e.Name, e.Data) })
		return nil, err
	})
}
