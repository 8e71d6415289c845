// Package invoke holds the state of one call of a module's export, and the
// host calls that the guest can make during it.
//
// A transport passes the arguments of an import as Go values, and receives a reply or an *abi.Error
// for the guest. The package enforces the limits and grants of package policy, charges fuel, and
// records or replays every answer that the run gives. It does not depend on the form in which a
// guest passes its arguments: it does not import the transports (packages plain, extism and script)
// or package module, all of which import it.
package invoke

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An Invocation is one call of a module's export and the state that the host keeps for it. Only the
// goroutine of that call may use it.
//
// Its methods implement the host calls of the ABI, independently of how a transport passes
// arguments. They return an *abi.Error for errors that the guest sees.
type Invocation struct {
	Hook    abi.Hook
	Limits  *policy.Limits
	Call    *hook.Call      // the hook call of the run; nil while an image is built
	Config  json.RawMessage // the reply of the config import; nil if that import is unavailable
	Grants  policy.Grants
	LogFunc func(level int32, text string) // defaults to Call's log
	// Readable rewrites logged text for people. Nil leaves it unchanged.
	Readable func(text string) string
	Now      int64 // the guest's clock, in nanoseconds

	Input []byte
	// Seed determines the guest's random bytes if Nth is 0. Otherwise Run, Entry and Nth determine
	// them.
	Seed       string
	Run, Entry string
	Nth        int64 // number of the call among the entry's calls in the run, from 1

	Entered  bool           // whether the guest was called
	inside   bool           // whether a host call is in progress, or aborted the guest
	guest    *sandbox.Guest // the guest that makes host calls; set by the first of them
	Recorder *replay.Recorder
	Replay   *replay.Player // answers host calls in place of the run
	Report   sandbox.Report
	Grown    int64 // growth of the instance's memory, in bytes
	Err      error // the error of the call; nil if it succeeded

	State       any             // state of the transport
	BuildConfig json.RawMessage // the configuration, which an Extism plug-in can also read while its image is built

	Pending   []byte
	Output    []byte
	HostCalls int
	logged    int // bytes of log text so far
	Recent    []string
	BytesIn   int64 // copied to the guest
	BytesOut  int64 // copied from the guest

	// heldReply and heldOutput are the numbers of bytes for which the run's memory limit is charged
	// because of the last host call and of the answer.
	heldReply, heldOutput int64

	inputBuffer, replyBuffer []byte // reused for the input, and for replies with messages
	outputBuffer, takeBuffer []byte // reused for the answer, and for arguments of host calls
}

// pool holds invocations for reuse, with their buffers.
var pool = sync.Pool{New: func() any { return new(Invocation) }}

// maxReusedBuffer bounds the capacity of a buffer that is reused, in bytes.
const maxReusedBuffer = 64 << 10

// New returns an empty invocation. The caller must call Release.
func New() *Invocation { return pool.Get().(*Invocation) }

// Release returns the invocation to the pool. A recorded invocation is not reused, because its
// recording and, through a tool that outlives the call, its context may still be referenced.
func (inv *Invocation) Release() {
	if inv.Recorder != nil {
		return
	}
	*inv = Invocation{
		inputBuffer:  reusable(inv.inputBuffer),
		replyBuffer:  reusable(inv.replyBuffer),
		outputBuffer: reusable(inv.outputBuffer),
		takeBuffer:   reusable(inv.takeBuffer),
	}
	pool.Put(inv)
}

// reusable returns buffer with length 0 for reuse, or nil if its capacity exceeds maxReusedBuffer.
func reusable(buffer []byte) []byte {
	if cap(buffer) > maxReusedBuffer {
		return nil
	}
	return buffer[:0]
}

// RandomSeed returns the seed of the guest's random bytes.
func (inv *Invocation) RandomSeed() string {
	if inv.Nth == 0 {
		return inv.Seed
	}
	return strconv.Quote(inv.Run) + " " + strconv.Quote(inv.Entry) + " " + strconv.FormatInt(inv.Nth, 10)
}

type contextKey struct{}

// An invocationContext is a context that carries an invocation.
type invocationContext struct {
	context.Context
	v *Invocation
}

// Value returns the invocation, or the parent's value.
func (c *invocationContext) Value(key any) any {
	if key == (contextKey{}) {
		return c.v
	}
	return c.Context.Value(key)
}

// Context returns a context that carries the invocation to imports.
func (inv *Invocation) Context(ctx context.Context) context.Context {
	return &invocationContext{ctx, inv}
}

// A lazyContext creates its invocation on first use.
type lazyContext struct {
	context.Context
	make func() *Invocation
	v    *Invocation
}

// Value returns the invocation, or the parent's value. Calls must not be concurrent.
func (c *lazyContext) Value(key any) any {
	if key != (contextKey{}) {
		return c.Context.Value(key)
	}
	if c.v == nil {
		c.v = c.make()
	}
	return c.v
}

// LazyContext returns a context that carries the result of make. It calls make when the guest first
// makes a host call. Most images are built without a host call.
func LazyContext(ctx context.Context, make func() *Invocation) context.Context {
	return &lazyContext{Context: ctx, make: make}
}

// Of returns the invocation that ctx carries. It panics if there is none.
func Of(ctx context.Context) *Invocation { return ctx.Value(contextKey{}).(*Invocation) }

// Clock returns the guest's time in nanoseconds. It is the time of the input, and advances to the
// host's clock after host calls that wait. A replay returns the recorded times.
func (inv *Invocation) Clock() int64 {
	if inv.Replay != nil {
		return inv.Replay.Clock()
	}
	inv.Recorder.Clock(inv.Now)
	return inv.Now
}

// Running reports whether a run, or a recording of one, can answer host calls.
func (inv *Invocation) Running() bool { return inv.Call != nil || inv.Replay != nil }

// Ask makes a host call by calling do, records it, and returns its reply. During a replay, it
// returns the recorded reply instead. q returns a description of the call; Ask calls q only if
// calls are recorded or replayed.
func (inv *Invocation) Ask(q func() replay.HostCall, do func() ([]byte, error)) ([]byte, error) {
	if inv.Replay != nil {
		call := q()
		return inv.Replay.Answer(&call)
	}
	reply, err := do()
	if inv.Recorder != nil {
		inv.Recorder.Add(q(), reply, err)
	}
	return reply, err
}

// count counts a host call and returns an error beyond the limit.
func (inv *Invocation) count() error {
	if inv.HostCalls++; inv.HostCalls > inv.Limits.HostCalls {
		return &policy.LimitError{
			Limit: "host_calls",
			Max:   inv.Limits.HostCalls,
			What:  fmt.Sprintf("host call %d", inv.HostCalls),
		}
	}
	return nil
}

// wait calls fn, which may block. The time does not count as the guest's.
func (inv *Invocation) wait(fn func()) {
	if inv.guest == nil {
		fn()
		return
	}
	inv.guest.Wait(fn)
}

// smallJSON is the size of JSON that is decoded without checking the time, in bytes.
const smallJSON = 16 << 10

// checkTime aborts the guest if its time or fuel is used up, or the call was canceled. Otherwise it
// returns nil. Long-running host calls call it regularly.
func (inv *Invocation) checkTime() error {
	if inv.guest != nil {
		inv.guest.CheckLimits()
	}
	return nil
}

// Begin starts a host call: it counts and charges it. The caller must call End, unless the guest is
// aborted.
func (inv *Invocation) Begin(g *sandbox.Guest, class policy.FuelClass) {
	inv.inside, inv.guest = true, g // remains set if the host call aborts the guest
	if err := inv.count(); err != nil {
		g.Abort(err)
	}
	inv.chargeCall(g, class)
}

// End ends a host call that Begin started.
func (inv *Invocation) End() { inv.inside = false }

// Abort ends the guest in a host call with err. It does not return.
func (inv *Invocation) Abort(g *sandbox.Guest, err error) {
	inv.inside = true
	g.Abort(err)
}
