package module

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// maxIdle is the maximum number of idle instances of an entry in a run.
const maxIdle = 4

// Open begins a run. The instances are created later, by hook calls.
func (mw *Middleware) Open(ctx context.Context, entry, run string) (hook.Session, error) {
	own, _ := ctx.Value(ownCallsKey{}).(*OwnCalls)
	return &session{mw: mw, ownCalls: own, entry: entry, run: run, stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}, nil
}

// A session is a middleware in one run.
type session struct {
	mw         *Middleware
	ownCalls   *OwnCalls // memory for calls that modules make themselves; nil if the run reserved none
	entry, run string

	mu     sync.Mutex
	idle   []*worker
	live   int // number of calls in progress
	calls  int64
	closed bool
	stats  abi.EntryStats
}

// A worker is an instance of a session.
type worker struct {
	in   *sandbox.Instance
	inv  *invoke.Invocation // the current call; nil while the worker is idle
	seed func() []byte      // returns the random seed of the current call

	memory int64 // size of the instance, in bytes

	release func() // releases memory outside of the run's reservation; nil if there is none

	history replay.History // the instance's earlier calls; empty if faults are not recorded
}

// Call runs one hook in an instance that has no call in progress. It returns faults, errors of the
// module, and errors that end the run, as documented in [hook.Session].
func (s *session) Call(ctx context.Context, c *hook.Call, in, out any) error {
	began := time.Now()
	inv, err := s.invocation(c, in)
	if inv.Recorder != nil {
		hook.ControlOf(c).OnFault(func(f *ending.FaultError) { s.bundle(inv, f) })
	}
	if err == nil {
		err = s.serve(ctx, inv, out)
	}
	inv.Err = err
	hook.ControlOf(c).Weigh(inv.BytesOut)
	hook.ControlOf(c).Spend(tracing.Cost{Fuel: int64(inv.Report.Fuel), BytesIn: inv.BytesIn, BytesOut: inv.BytesOut,
		Memory: inv.Report.Memory})
	took := time.Since(began) - hook.ControlOf(c).Waited()
	s.count(inv, took, isFault(err))
	if s.mw.onCall != nil {
		s.mw.onCall(
			CallReport{Hook: inv.Hook, Time: took, Fuel: inv.Report.Fuel, BytesIn: inv.BytesIn, BytesOut: inv.BytesOut,
				HostCalls: inv.HostCalls, Grown: inv.Grown, Err: err, Faulted: isFault(err)},
		)
	}
	inv.Release()
	return err
}

// invocation returns the invocation for a hook call with its encoded input. The result is not nil
// even if there is an error.
func (s *session) invocation(c *hook.Call, in any) (*invoke.Invocation, error) {
	m := s.mw.module
	inv := invoke.New()
	inv.Hook, inv.Limits, inv.Call, inv.Config, inv.Grants = c.Hook, &m.limits, c, s.mw.config, s.mw.grants
	inv.Readable, inv.Recorder = m.readable, m.recorder()
	if e, ok := in.(interface{ Envelope() *abi.Common }); ok {
		inv.Now = e.Envelope().Run.NowMS * 1e6
	}
	var err error
	if err = inv.Encode(in); err == nil {
		return inv, m.checkInput(inv)
	}
	if full := (*policy.LimitError)(nil); errors.As(err, &full) {
		return inv, m.fault(inv, full)
	}
	return inv, fmt.Errorf("encode the input of %s: %w", c.Hook, err)
}

// checkInput returns a fault if the input exceeds the limit input_bytes.
func (m *Module) checkInput(inv *invoke.Invocation) error {
	if len(inv.Input) <= m.limits.InputBytes {
		return nil
	}
	limit := &policy.LimitError{
		Limit: "input_bytes",
		Max:   m.limits.InputBytes,
		What:  fmt.Sprintf("an input of %d bytes", len(inv.Input)),
	}
	row := abitable.HookOf(inv.Hook)
	if mode := m.desc.Messages; row.Has(abitable.Lists) && (mode == "" || mode == contract.MessagesFull) {
		limit.Fix = `the module should declare "messages": "lazy", and ask for the messages that it needs`
	}
	return m.fault(inv, limit)
}

// serve calls the invocation's hook in an instance and decodes the answer into out.
func (s *session) serve(ctx context.Context, inv *invoke.Invocation, out any) error {
	m := s.mw.module
	w, err := s.acquire(ctx, inv)
	switch {
	case err != nil && ctx.Err() != nil:
		return err // the run has ended
	case err != nil:
		return m.fault(inv, err)
	}
	inv.Recorder.Begin(&w.history)
	inv.Entered = true
	left := s.fuelLeft()
	w.in.LimitFuel(inv.Replay.MaxFuel(left))
	failed, err := m.transport.Call(ctx, w.in, inv)
	inv.Report = w.in.Report()
	if left < inv.Limits.Fuel {
		err = runFuelError(inv, err, left)
	}
	inv.Grown, w.memory = inv.Report.Memory-w.memory, inv.Report.Memory
	var refusal *abi.Error
	switch {
	case err != nil:
	case failed:
		refusal, err = inv.DecodeFailure()
	default:
		if err = inv.DecodeAnswer(out); err == nil {
			err = inv.CheckGrants(out)
		}
	}
	w.inv = nil
	if inv.Recorder != nil {
		inv.Recorder.End(inv.Recording(failed))
	}
	s.release(w, err == nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return err // the run has ended
	case err != nil:
		return m.fault(inv, err)
	case refusal != nil:
		return refusal
	}
	return nil
}

// fuelLeft returns the fuel that the entry may still use in this run.
func (s *session) fuelLeft() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.mw.module.limits.RunFuel-s.stats.Fuel)
}

// runFuelError returns an error for the limit run_fuel if err means that the call ran out of fuel.
// It must be called only if the fuel of the call was limited to left, the rest of the run's fuel.
// Other errors are returned unchanged.
func runFuelError(inv *invoke.Invocation, err error, left int64) error {
	var guest *sandbox.FaultError
	if !errors.As(err, &guest) || guest.Kind != sandbox.FaultFuel {
		return err
	}
	return &policy.LimitError{Limit: "run_fuel", Max: int(inv.Limits.RunFuel),
		What: fmt.Sprintf("the entry's hooks used %d fuel in this run", inv.Limits.RunFuel-left+int64(inv.Report.Fuel))}
}

// acquire returns an idle instance for the call. If none is idle, it returns a new one. It returns
// an error if the session is closed or has reached the limit "instances", or if there is no memory
// for a new instance.
func (s *session) acquire(ctx context.Context, inv *invoke.Invocation) (*worker, error) {
	s.mu.Lock()
	limit := inv.Limits.Instances
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, sandbox.ErrClosed
	case s.live >= limit:
		s.mu.Unlock()
		return nil, &policy.LimitError{
			Limit: "instances",
			Max:   limit,
			What:  fmt.Sprintf("%d concurrent calls of the entry", limit+1),
		}
	}
	s.live++
	s.calls++
	if inv.Seed == "" {
		inv.Run, inv.Entry, inv.Nth = s.run, s.entry, s.calls
	}
	var w *worker
	if n := len(s.idle); n > 0 {
		w, s.idle = s.idle[n-1], s.idle[:n-1]
	}
	live := s.live
	s.mu.Unlock()
	if w == nil {
		var err error
		if w, err = s.instantiate(ctx, live); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.live--
			return nil, err
		}
	}
	w.inv = inv
	w.in.Reseed(w.seed)
	return w, nil
}

// instantiate creates an instance. The argument live is the number of calls in progress, including
// this one.
func (s *session) instantiate(ctx context.Context, live int) (*worker, error) {
	release, err := s.ownCalls.beyond(ctx, s.mw, live)
	if err != nil {
		return nil, err
	}
	w := &worker{release: release}
	w.seed = func() []byte { return []byte(w.inv.RandomSeed()) }
	print := func(line []byte) { w.inv.Print(line) }
	fuel := policy.ScheduleOf(&s.mw.module.limits)
	in, err := s.mw.image.Instantiate(
		// A module that cannot be reset is built again here. Its host calls must not use the
		// invocation in ctx, which may be that of another module that waits for this call.
		invoke.LazyContext(ctx, s.mw.buildInvocation),
		sandbox.InstanceConfig{
			Stdout:   print,
			Stderr:   print,
			LineFuel: fuel.Record,
			ByteFuel: fuel.Byte,
			Clock:    func() int64 { return w.inv.Clock() },
		},
	)
	if err != nil {
		w.close()
		return nil, err
	}
	w.in = in
	if w.memory = s.mw.image.Reset().ImageBytes; w.memory == 0 {
		w.memory, _ = s.mw.image.Memory()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Instances++
	return w, nil
}

// release makes an instance idle after a call. Instead, it closes the instance if good is false,
// the session is closed, or maxIdle instances are idle.
func (s *session) release(w *worker, good bool) {
	s.mu.Lock()
	s.live--
	keep := good && !s.closed && len(s.idle) < maxIdle
	if keep {
		s.idle = append(s.idle, w)
	}
	s.mu.Unlock()
	if !keep {
		w.close()
	}
}

func (w *worker) close() {
	if w.in != nil {
		w.in.Close()
	}
	if w.release != nil {
		w.release()
	}
}

// Close closes the idle instances. Calls in progress close their instances when they end.
func (s *session) Close() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, w := range idle {
		w.close()
	}
}

func (s *session) count(inv *invoke.Invocation, wall time.Duration, faulted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hook.CountCall(&s.stats, inv.Hook, wall, faulted)
	s.stats.BytesIn += inv.BytesIn
	s.stats.BytesOut += inv.BytesOut
	s.stats.Fuel += int64(inv.Report.Fuel)
}

// Stats returns the number of calls and the resource use of the session so far.
func (s *session) Stats() abi.EntryStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hook.CloneStats(&s.stats)
}

// isFault reports whether err is a fault of this entry, and not an error that next returned or the
// end of the run. A fault of this entry has no entry yet, because the chain sets it later.
func isFault(err error) bool {
	if err == nil {
		return false
	}
	var fault *ending.FaultError
	return errors.As(err, &fault) && fault.Entry == ""
}
