// Package invoke holds the state of one call of a module's export, and the
// host calls that the guest can make during it.
//
// A transport hands in what the guest passed to an import, as Go values, and
// gets a reply or an *abi.Error for the guest. The package enforces the limits
// and grants of package policy, charges fuel, and records or replays every
// answer that the run gives. It never learns in which form a guest passes its
// arguments: it does not import the transports (native, extism, script) or
// package module, all of which import it.
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

// A Invocation is one call of a module's export: what the host keeps of it while
// the guest's code runs. It belongs to the goroutine of that call.
//
// Its methods are the host calls of the ABI without the form in which a
// transport makes them. They return *abi.Error for what the guest is to see.
type Invocation struct {
	Hook    abi.Hook
	Limits  *policy.Limits
	Call    *hook.Call      // nil while the image is built
	Config  json.RawMessage // nil while it is not to be had
	Grants  policy.Grants
	LogFunc func(level int32, text string) // nil: to the call
	// readable rewrites what the guest logs for people; nil leaves it unchanged.
	Readable func(text string) string
	Now      int64 // what the guest's clock shows, in nanoseconds

	Input []byte
	// seed determines the guest's random bytes. It is empty in a run, where run, entry and nth do.
	Seed       string
	Run, Entry string
	Nth        int64 // among the entry's calls in the run, from 1

	Entered  bool           // the guest was called
	inside   bool           // a host call is under way, or ended the guest
	guest    *sandbox.Guest // once it has made a host call
	Recorder *replay.Recorder
	Replay   *replay.Player // answers the guest in the host's place
	Report   sandbox.Report
	Grown    int64 // bytes of memory
	Err      error // what the call came to

	State       any             // what the transport keeps of the call
	BuildConfig json.RawMessage // the configuration, which an Extism plug-in finds also while its image is built

	Pending   []byte
	Output    []byte
	HostCalls int
	logged    int // bytes
	Recent    []string
	BytesIn   int64 // copied to the guest
	BytesOut  int64 // copied from it

	// What the call holds of the last host call and of the answer, in bytes.
	heldReply, heldOutput int64

	inputBuffer, replyBuffer []byte // for its input, and for replies with messages: nobody keeps them
	outputBuffer, takeBuffer []byte // for its answer, and what it hands to host calls
}

// pool are such as are used again, with their rooms.
var pool = sync.Pool{New: func() any { return new(Invocation) }}

// maxReusedBuffer is how large a room may be that is used again, in bytes.
const maxReusedBuffer = 64 << 10

// New returns a visit that is to be given back.
func New() *Invocation { return pool.Get().(*Invocation) }

// Release ends a visit, which nobody looks at any more. What is recorded is kept, and
// its context may be: by a tool that did not end with its call.
func (inv *Invocation) Release() {
	if inv.Recorder != nil {
		return
	}
	*inv = Invocation{inputBuffer: reusable(inv.inputBuffer), replyBuffer: reusable(inv.replyBuffer), outputBuffer: reusable(inv.outputBuffer), takeBuffer: reusable(inv.takeBuffer)}
	pool.Put(inv)
}

// reusable is a room that is used again, or none if it has become too large.
func reusable(room []byte) []byte {
	if cap(room) > maxReusedBuffer {
		return nil
	}
	return room[:0]
}

// RandomSeed determines the guest's random bytes.
func (inv *Invocation) RandomSeed() string {
	if inv.Nth == 0 {
		return inv.Seed
	}
	return strconv.Quote(inv.Run) + " " + strconv.Quote(inv.Entry) + " " + strconv.FormatInt(inv.Nth, 10)
}

type contextKey struct{}

// A invocationContext is a context with a visit in it.
type invocationContext struct {
	context.Context
	v *Invocation
}

// Value finds the visit, and whatever the context has.
func (c *invocationContext) Value(key any) any {
	if key == (contextKey{}) {
		return c.v
	}
	return c.Context.Value(key)
}

// Context returns ctx with the visit in it, where imports find it.
func (inv *Invocation) Context(ctx context.Context) context.Context {
	return &invocationContext{ctx, inv}
}

// A lazyContext is a visitContext whose visit is made when it is first asked for.
type lazyContext struct {
	context.Context
	make func() *Invocation
	v    *Invocation
}

// Value returns the visit, or what the parent context has. It must be called by one goroutine at a time.
func (c *lazyContext) Value(key any) any {
	if key != (contextKey{}) {
		return c.Context.Value(key)
	}
	if c.v == nil {
		c.v = c.make()
	}
	return c.v
}

// LazyContext returns ctx with a visit that make returns when a function of the guest asks for it,
// which hardly ever happens.
func LazyContext(ctx context.Context, make func() *Invocation) context.Context {
	return &lazyContext{Context: ctx, make: make}
}

// Of returns the visit that ctx has.
func Of(ctx context.Context) *Invocation { return ctx.Value(contextKey{}).(*Invocation) }

// Clock is what the guest's clock shows, in nanoseconds: that of the input,
// and the host's again after each next.
func (inv *Invocation) Clock() int64 {
	if inv.Replay != nil {
		return inv.Replay.Clock()
	}
	inv.Recorder.Clock(inv.Now)
	return inv.Now
}

// Running reports whether there is a run that host calls can ask.
func (inv *Invocation) Running() bool { return inv.Call != nil || inv.Replay != nil }

// Ask makes a host call that the run answers, or what a bundle recorded did.
//
// What it is, q tells, which is asked only where calls are recorded or replayed.
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

// count counts a host call.
func (inv *Invocation) count() error {
	if inv.HostCalls++; inv.HostCalls > inv.Limits.HostCalls {
		return &policy.LimitError{Limit: "host_calls", Max: inv.Limits.HostCalls, What: fmt.Sprintf("host call %d", inv.HostCalls)}
	}
	return nil
}

// wait calls what may have to wait for somebody: its time is not the guest's.
func (inv *Invocation) wait(fn func()) {
	if inv.guest == nil {
		fn()
		return
	}
	inv.guest.Wait(fn)
}

// smallJSON is how many bytes of JSON are read before anybody is asked whether to stop.
const smallJSON = 16 << 10

// checkTime ends the guest in the middle of a host call that works for long, if its
// time is over; then it does not return.
func (inv *Invocation) checkTime() error {
	if inv.guest != nil {
		inv.guest.CheckLimits()
	}
	return nil
}

// Begin begins a host call of that class, and end ends it.
func (inv *Invocation) Begin(g *sandbox.Guest, class policy.FuelClass) {
	inv.inside, inv.guest = true, g // and it stays inside if the guest ends in here
	if err := inv.count(); err != nil {
		g.Abort(err)
	}
	inv.chargeCall(g, class)
}

func (inv *Invocation) End() { inv.inside = false }

// Abort ends the guest in a host call.
func (inv *Invocation) Abort(g *sandbox.Guest, err error) {
	inv.inside = true
	g.Abort(err)
}
