package module

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// maxIdle is how many instances of an entry wait for its next call in a run.
const maxIdle = 4

// Open begins a run. Instances are made when hooks are called.
func (mw *Middleware) Open(ctx context.Context, entry, run string) (chain.Session, error) {
	room, _ := ctx.Value(roomKey{}).(*Room)
	return &session{mw: mw, room: room, entry: entry, run: run, stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}, nil
}

// A session is a middleware in one run.
type session struct {
	mw         *Middleware
	room       *Room // of a run that reserved its memory, or nil
	entry, run string

	mu     sync.Mutex
	idle   []*worker
	live   int // calls under way
	calls  int64
	closed bool
	stats  abi.EntryStats
}

// A worker is an instance of a session.
type worker struct {
	in    *sandbox.Instance
	visit *visit        // the call that it serves
	seed  func() []byte // of that

	memory int64 // bytes that it has

	release func() // of memory beyond what the run had reserved; may be nil

	history history // what it served before, if faults are recorded
}

// Call runs one hook in an instance that has no live call. Fault, failure and
// ending are told as chain.Session says.
func (s *session) Call(ctx context.Context, c *chain.Call, in, out any) error {
	began := time.Now()
	v, err := s.visit(c, in)
	if v.recorder != nil {
		c.OnFault(func(f *chain.Fault) { s.bundle(v, f) })
	}
	if err == nil {
		err = s.serve(ctx, v, out)
	}
	v.ended = err
	c.Weigh(v.bytesOut)
	c.Spend(chain.Spent{Fuel: int64(v.report.Fuel), BytesIn: v.bytesIn, BytesOut: v.bytesOut})
	took := time.Since(began) - c.Waited()
	s.count(v, took, isFault(err))
	if s.mw.served != nil {
		s.mw.served(v, took)
	} else {
		v.giveBack()
	}
	return err
}

// visit makes the visit of a call.
func (s *session) visit(c *chain.Call, in any) (*visit, error) {
	m := s.mw.module
	v := newVisit()
	v.hook, v.limits, v.call, v.config, v.grants = c.Hook, &m.limits, c, s.mw.config, s.mw.grants
	v.transport, v.recorder = m.transport, m.recorder()
	if e, ok := in.(interface{ Envelope() *abi.Common }); ok {
		v.now = e.Envelope().Run.NowMS * 1e6
	}
	var err error
	if v.input, err = v.encode(in); err == nil {
		err = v.hold(int64(len(v.input)))
	}
	if err == nil {
		v.pending = v.input
		return v, v.checkInput(m)
	}
	if full := (*limitError)(nil); errors.As(err, &full) {
		return v, m.fault(v, full)
	}
	return v, fmt.Errorf("encode the input of %s: %w", c.Hook, err)
}

// encode writes a hook's input, with the messages that it shows.
func (v *visit) encode(in any) ([]byte, error) {
	var b []byte
	var err error
	if v.recorder != nil { // and keeps the input
		b, err = abi.Marshal(in)
	} else {
		b, err = abi.AppendJSON(v.inputRoom, in)
		v.inputRoom = b[:0]
	}
	items, n := v.call.Shown()
	if err != nil || items == nil {
		return b, err
	}
	if err := v.hold(int64(len(b))); err != nil { // the call holds the items already
		return nil, err
	}
	object := b
	if n == abi.ListRequest {
		object = abi.FieldOf(b, "request")
	}
	list := abi.FieldOf(object, "messages")
	if list == nil {
		return nil, fmt.Errorf("it has no list %d of messages", n)
	}
	const key = `,"items":`
	end := cap(b) - cap(list) + len(list) - 1 // where the list's brace closes
	out := make([]byte, 0, len(b)+len(key)+len(items))
	out = abi.Append(append(abi.Append(out, b[:end]), key...), items)
	return abi.Append(out, b[end:]), nil
}

// checkInput refuses an input that is too large.
func (v *visit) checkInput(m *Module) error {
	if len(v.input) <= m.limits.InputBytes {
		return nil
	}
	limit := &limitError{limit: "input_bytes", most: m.limits.InputBytes, what: fmt.Sprintf("an input of %d bytes", len(v.input))}
	if mode := m.desc.Messages; (mode == "" || mode == abi.MessagesFull) && showsMessages(v.hook) {
		limit.fix = `let the module describe itself with "messages": "lazy", and ask for the messages that it needs`
	}
	return m.fault(v, limit)
}

// showsMessages reports whether a hook's input has a list of messages.
func showsMessages(h abi.Hook) bool {
	switch h {
	case abi.HookBeforeAgent, abi.HookBeforeModelRewriteState, abi.HookBeforeModel, abi.HookWrapModel, abi.HookAfterModel,
		abi.HookAfterModelRewriteState, abi.HookAfterTools, abi.HookAfterAgent:
		return true
	default:
		return false
	}
}

// serve lets an instance do the visit.
func (s *session) serve(ctx context.Context, v *visit, out any) error {
	m := s.mw.module
	w, err := s.acquire(ctx, v)
	switch {
	case err != nil && ctx.Err() != nil:
		return err // the end of the run
	case err != nil:
		return m.fault(v, err)
	}
	v.recorder.begin(&w.history)
	v.entered = true
	left := s.fuelLeft()
	w.in.LimitFuel(v.replay.most(left))
	failed, err := m.transport.call(ctx, w.in, v)
	v.report = w.in.Report()
	if left < v.limits.Fuel {
		err = v.runFuel(err, left)
	}
	v.grown, w.memory = v.report.Memory-w.memory, v.report.Memory
	var refusal *abi.Error
	switch {
	case err != nil:
	case failed:
		refusal, err = v.failure()
	default:
		err = v.answer(out)
	}
	w.visit = nil
	v.recorder.end(v, failed)
	s.release(w, err == nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return err // the end of the run
	case err != nil:
		return m.fault(v, err)
	case refusal != nil:
		return refusal
	}
	return nil
}

// fuelLeft is what the run may use still.
func (s *session) fuelLeft() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.mw.module.limits.RunFuel-s.stats.Fuel)
}

// runFuel makes the end of a call that had less fuel than others, since that was
// all the run had left, what it is.
func (v *visit) runFuel(err error, left int64) error {
	var guest *sandbox.Fault
	if !errors.As(err, &guest) || guest.Kind != sandbox.FaultFuel {
		return err
	}
	return &limitError{limit: "run_fuel", most: int(v.limits.RunFuel),
		what: fmt.Sprintf("the entry's hooks used %d fuel in this run", v.limits.RunFuel-left+int64(v.report.Fuel))}
}

// acquire returns an instance for a call: one that waits, or a new one.
func (s *session) acquire(ctx context.Context, v *visit) (*worker, error) {
	s.mu.Lock()
	most := v.limits.Instances
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, sandbox.ErrClosed
	case s.live >= most:
		s.mu.Unlock()
		return nil, &limitError{"instances", most, fmt.Sprintf("%d calls of the entry at once", most+1), ""}
	}
	s.live++
	s.calls++
	if v.seed == "" {
		v.session, v.nth = s, s.calls
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
	w.visit = v
	w.in.Reseed(w.seed)
	return w, nil
}

// instantiate makes an instance, with which there are so many calls under way.
func (s *session) instantiate(ctx context.Context, live int) (*worker, error) {
	release, err := s.room.beyond(ctx, s.mw, live)
	if err != nil {
		return nil, err
	}
	w := &worker{release: release}
	w.seed = func() []byte { return []byte(w.visit.randomSeed()) }
	print := func(line []byte) { w.visit.print(line) }
	fuel := &fuelSchedules[s.mw.module.limits.FuelSchedule]
	in, err := s.mw.image.Instantiate(
		// A module that cannot be reset is built again here, and must not find
		// the visit of a module that waits for this one.
		&buildContext{Context: ctx, mw: s.mw},
		sandbox.InstanceConfig{Stdout: print, Stderr: print, LineFuel: fuel.record, ByteFuel: fuel.byte, Clock: func() int64 { return w.visit.clock() }})
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

// release takes an instance back after a call. One whose call went wrong is
// not used again.
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

// Close closes the instances; calls that are still under way close theirs.
func (s *session) Close() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, w := range idle {
		w.close()
	}
}

func (s *session) count(v *visit, wall time.Duration, faulted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Count(v.hook, wall, faulted)
	s.stats.BytesIn += v.bytesIn
	s.stats.BytesOut += v.bytesOut
	s.stats.Fuel += int64(v.report.Fuel)
}

// Stats tell what the session has used so far.
func (s *session) Stats() abi.EntryStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.Clone()
}

// isFault reports whether err is a fault of this entry, and not an ending that
// came from inside.
func isFault(err error) bool {
	if err == nil {
		return false
	}
	var fault *chain.Fault
	return errors.As(err, &fault) && fault.Entry == ""
}
