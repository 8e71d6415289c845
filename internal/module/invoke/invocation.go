// Package invoke implements one call of a module's export: its state, and the host calls that the
// guest can make during the call.
//
// A transport passes the arguments of an import as Go values, and receives a reply or an *abi.Error
// for the guest. The package enforces the limits and grants of package policy, charges fuel, and
// records or replays every answer of the run.
//
// The package does not depend on the form in which a guest passes its arguments. It must not import
// the transports (packages plain, extism and script) or package module, because they import it.
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

// An Invocation is one call of a module's export with the state that the host has for the call.
// Only the goroutine of that call may use it.
//
// Its methods implement the host calls of the ABI, independently of how a transport passes
// arguments. For errors that the guest sees, the methods return an *abi.Error.
type Invocation struct {
	Hook    abi.Hook
	Limits  *policy.Limits
	Call    *hook.Call      // the hook call of the run; nil while an image is built
	Config  json.RawMessage // the reply of the config import; nil if that import is unavailable
	Grants  policy.Grants
	LogFunc func(level int32, text string) // defaults to Call's log
	// Readable changes logged text for human readers. If nil, the text stays unchanged.
	Readable func(text string) string
	Now      int64 // the guest's clock, in nanoseconds

	Input []byte
	// Seed determines the guest's random bytes if Nth is 0. Otherwise Run, Entry and Nth determine
	// them.
	Seed       string
	Run, Entry string
	Nth        int64 // number of the call among the entry's calls in the run, from 1

	Entered  bool           // whether the call of the guest has started
	inside   bool           // whether a host call is in progress, or aborted the guest
	guest    *sandbox.Guest // the guest that makes host calls; nil before the first one
	Recorder *replay.Recorder
	Replay   *replay.Player // answers host calls instead of the run
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

	// heldReply and heldOutput are the numbers of bytes that count towards the run's memory for the
	// last host call and for the answer.
	heldReply, heldOutput int64

	inputBuffer, replyBuffer []byte // reused for the input, and for replies with messages
	outputBuffer, takeBuffer []byte // reused for the answer, and for arguments of host calls
}

// pool contains invocations with their buffers for reuse.
var pool = sync.Pool{New: func() any { return new(Invocation) }}

// maxReusedBuffer is the maximum capacity of a buffer that is reused, in bytes.
const maxReusedBuffer = 64 << 10

// New returns an empty invocation. The caller must call Release.
func New() *Invocation { return pool.Get().(*Invocation) }

// Release makes the invocation available for reuse. A recorded invocation is not reused, because
// its recording may still be referenced. So may its context, if a tool outlives the call.
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

// RandomSeed returns the seed from which the guest's random bytes are generated.
func (inv *Invocation) RandomSeed() string {
	if inv.Nth == 0 {
		return inv.Seed
	}
	return strconv.Quote(inv.Run) + " " + strconv.Quote(inv.Entry) + " " + strconv.FormatInt(inv.Nth, 10)
}

type contextKey struct{}

// An invocationContext is a context with an invocation.
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

// Context returns a context with the invocation, which [Of] returns.
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

// LazyContext returns a context with an invocation that make creates. make is called when the guest
// makes its first host call. Most images are built without host calls.
func LazyContext(ctx context.Context, make func() *Invocation) context.Context {
	return &lazyContext{Context: ctx, make: make}
}

// Of returns the invocation of ctx. It panics if ctx has none.
func Of(ctx context.Context) *Invocation { return ctx.Value(contextKey{}).(*Invocation) }

// Clock returns the guest's time in nanoseconds. The time is that of the input, and advances to the
// host's clock after host calls that wait. During a replay, Clock returns the recorded times.
func (inv *Invocation) Clock() int64 {
	if inv.Replay != nil {
		return inv.Replay.Clock()
	}
	inv.Recorder.Clock(inv.Now)
	return inv.Now
}

// Running reports whether a run, or a recording of one, can answer host calls.
func (inv *Invocation) Running() bool { return inv.Call != nil || inv.Replay != nil }

// Ask makes a host call by calling do, records the call, and returns the reply. During a replay, it
// returns the recorded reply instead. The function q returns a description of the call. Ask calls q
// only if calls are recorded or replayed.
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

// count counts a host call. It returns a *policy.LimitError if the limit host_calls is exceeded.
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

// wait calls fn, which may block. The time of fn does not count as the guest's time.
func (inv *Invocation) wait(fn func()) {
	if inv.guest == nil {
		fn()
		return
	}
	inv.guest.Wait(fn)
}

// smallJSON is the maximum size, in bytes, of JSON that is decoded without checking the time.
const smallJSON = 16 << 10

// checkTime aborts the guest if its time or fuel is used up, or if the call was canceled. Otherwise
// it returns nil. Long-running host calls must call it regularly.
func (inv *Invocation) checkTime() error {
	if inv.guest != nil {
		inv.guest.CheckLimits()
	}
	return nil
}

// Begin starts a host call: it counts the call and charges its fuel. The caller must call End,
// unless the guest is aborted.
func (inv *Invocation) Begin(g *sandbox.Guest, class policy.FuelClass) {
	inv.inside, inv.guest = true, g // remains set if the host call aborts the guest
	if err := inv.count(); err != nil {
		g.Abort(err)
	}
	inv.chargeCall(g, class)
}

// End ends a host call that Begin started.
func (inv *Invocation) End() { inv.inside = false }

// Abort stops the guest with err during a host call. It does not return.
func (inv *Invocation) Abort(g *sandbox.Guest, err error) {
	inv.inside = true
	g.Abort(err)
}
