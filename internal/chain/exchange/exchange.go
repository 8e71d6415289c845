package exchange

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/chunk"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// An exchange is one call that the rings wrap, of the model or of a tool: Q
// is what is asked, P a patch of it, R what is answered. The rules of order
// are the same for both and stand here; what differs is a kind.
type Exchange[Q, P, R any] struct {
	Run  *hook.Run
	Kind Kind[Q, P, R]
	// core is the model, or the gates and the tool.
	Core func(ctx context.Context, q Q, out chunk.Sink) (Reply[R], error)
	// delivered reports whether chunks have left the outermost ring.
	Delivered func() bool
	CallID    string // of a tool's call
	Before    abi.Hook
	Wrap      abi.Hook
	After     abi.Hook

	Held account.Meter // what wrappers sent and answered
}

// A reply is an answer or an error, and who gave it.
type Reply[R any] struct {
	Res    *R
	Err    *abi.Error
	Source string
}

// A kind is what distinguishes model calls and tool calls.
type Kind[Q, P, R any] interface {
	// callBefore, callWrap and callAfter call one member's hook.
	Before(ctx context.Context, m *hook.Member, q Q) (Q, *R, record.Verdict, error)
	Wrap(ctx context.Context, m *hook.Member, q Q, w *Wrapping[Q, P, R]) (*R, record.Verdict, error)
	// callAfter may ask for the call once more: with the Q it returns.
	After(ctx context.Context, m *hook.Member, q Q, rep Reply[R]) (Reply[R], *Q, record.Verdict, error)
	// patch applies a patch that a wrapper gave to next.
	Patch(q Q, p P, m *hook.Member) (Q, error)
	// chunks are those that say what res says; assemble is the reverse.
	Chunks(q Q, res *R) []abi.Chunk
	Assemble(res *R, chunks []abi.Chunk) *R
	// end is how a stream of res ends.
	End(res *R) *abi.StreamEnd
	// same reports whether two answers say the same, whoever gave them.
	Same(a, b *R) bool
}

// ofTool reports whether it is the call of a tool.
func (x *Exchange[Q, P, R]) ofTool() bool { return x.Wrap == abi.HookWrapToolCall }

// failure is the code of an error of what is called.
func (x *Exchange[Q, P, R]) failure() abi.Code {
	if x.ofTool() {
		return abi.CodeTool
	}
	return abi.CodeModel
}

// call asks q from the outermost ring on. The error is an ending.
func (x *Exchange[Q, P, R]) Call(ctx context.Context, q Q, out chunk.Sink) (Reply[R], *local.Hold, error) {
	ctx, h := withHold(ctx)
	rep, err := x.ring(ctx, hook.Outer, q, outletOf(out, x.Delivered))
	return rep, h, err
}

// ring asks q from ring i on inwards: before hooks, then the onion around
// what lies inside, then on_chunk and the after hooks.
func (x *Exchange[Q, P, R]) ring(ctx context.Context, i hook.Ring, q Q, out outlet) (Reply[R], error) {
	if i == hook.RingCount {
		return x.Core(ctx, q, sinkOf(out))
	}
	if i > hook.Outer && x.bare(i) {
		x.Run.StreamIDs.Add(1) // each ring has a stream, and they have the same numbers in any pass
		return x.ring(ctx, i+1, q, out)
	}
	q, rep, err := x.runBefore(ctx, i, q)
	if err != nil {
		return rep, err
	}
	short := rep.Res != nil || rep.Err != nil
	for again := 0; ; again++ {
		s := newStream(x.Run, i, x.ofTool(), x.CallID, out)
		if !short {
			rep, err = x.onion(ctx, i, x.Run.In(i, x.Wrap), q, s.outlet())
		}
		if err == nil {
			rep, err = x.passChunks(ctx, s, q, rep)
		}
		s.held.Release()
		if err != nil {
			return rep, err
		}
		var retry *Q
		if rep, retry, err = x.runAfter(ctx, i, q, rep, again); err != nil || retry == nil {
			return rep, err
		}
		if q, short = *retry, false; s.n > 0 && !s.anew() {
			out = nil
		}
	}
}

// bare reports whether no hook of a ring has to do with the exchange: then the ring
// lets pass what it is given, as if it were not there. The outermost is there always,
// since it tells the caller of an answer that did not come in chunks.
func (x *Exchange[Q, P, R]) bare(i hook.Ring) bool {
	for _, h := range [...]abi.Hook{x.Before, x.Wrap, abi.HookOnChunk, x.After} {
		if len(x.Run.In(i, h)) > 0 {
			return false
		}
	}
	return true
}

// Who answered, where it was no entry.
const (
	SourceModel = "model"
	SourceTool  = "tool"
	SourceHost  = "host"
)

// recordedReply is a reply of the model or of a tool from an earlier pass.
func Recorded[R any](res *R, v record.Verdict, source string) Reply[R] {
	if v.Failed != nil {
		return Reply[R]{Err: v.Failed, Source: source}
	}
	return Reply[R]{Res: res, Source: source}
}

// runBefore runs the ring's before hooks. An answer of one of them skips the
// rest and the onion; so does an error.
func (x *Exchange[Q, P, R]) runBefore(ctx context.Context, i hook.Ring, q Q) (Q, Reply[R], error) {
	var answered, failed Reply[R]
	for _, m := range x.Run.In(i, x.Before) {
		changed, res, v, err := x.Kind.Before(ctx, m, q)
		switch {
		case err != nil:
			return q, Reply[R]{}, err
		case v.Failed != nil && failed.Err == nil:
			failed = Reply[R]{Err: v.Failed, Source: m.Name}
		case v.OK():
			q = changed
		}
		if res != nil {
			answered = Reply[R]{Res: res, Source: m.Name}
		}
		if v.Failed != nil && !x.Run.ContinueOnError || res != nil && !x.Run.ContinueOnResponse {
			break
		}
	}
	if failed.Err != nil {
		return q, failed, nil
	}
	return q, answered, nil
}

// passChunks lets a reply that has not passed the ring's on_chunk do so, or
// puts together what left it.
func (x *Exchange[Q, P, R]) passChunks(ctx context.Context, s *stream, q Q, rep Reply[R]) (Reply[R], error) {
	if rep.Err != nil {
		return rep, nil
	}
	// A tool's result that did not come in chunks is told of once it is there.
	tells := s.out != nil && !s.finished && s.failed == nil && (s.n > 0 || !x.ofTool())
	if !tells && len(s.members) == 0 {
		return rep, nil
	}
	var chunks []abi.Chunk
	if s.n == 0 || len(s.members) > 0 { // else nobody looks at them
		chunks = x.Kind.Chunks(q, rep.Res)
	}
	var err error
	if tells {
		rest := chunks
		if s.n > 0 {
			rest = nil
		}
		err = s.push(ctx, rest, true)
	}
	var passed []abi.Chunk
	switch {
	case err != nil || len(s.members) == 0:
	case s.n > 0 && s.failed == nil && s.came.Says(chunks):
		passed = s.passed.Chunks()
	default:
		s.id = x.Run.StreamIDs.Add(1)
		passed, err = s.filter(ctx, chunks, true)
	}
	failed, ok := FailedBy[R](err)
	switch {
	case ok:
		return failed, nil
	case err != nil:
		return rep, err
	case s.changed(chunks, passed):
		if err := x.Held.Add(size.Chunks(passed)); err != nil {
			return Reply[R]{Err: ending.LimitFailure("stream", err), Source: SourceHost}, nil
		}
		rep.Res = x.Kind.Assemble(rep.Res, passed)
	}
	return rep, nil
}

// runAfter runs the ring's after hooks, each on what the one before left,
// until one asks for the call once more.
func (x *Exchange[Q, P, R]) runAfter(ctx context.Context, i hook.Ring, q Q, rep Reply[R], again int) (Reply[R], *Q, error) {
	var failed Reply[R]
	for _, m := range x.Run.In(i, x.After) {
		changed, retry, v, err := x.Kind.After(ctx, m, q, rep)
		switch {
		case err != nil:
			return rep, nil, err
		case v.Failed != nil && x.Run.ContinueOnError:
			if failed.Err == nil {
				failed = Reply[R]{Err: v.Failed, Source: m.Name}
			}
		case v.Failed != nil:
			rep = Reply[R]{Err: v.Failed, Source: m.Name}
		case v.Faulted:
		case retry != nil && again >= abi.MaxAgain:
			x.Run.Call(m, x.After).Log(abi.LogWarn, "again: ignored, a call is made once more at most 3 times")
		case retry != nil && !x.ofTool() && x.Delivered():
			x.Run.Call(m, x.After).Log(abi.LogWarn, "again: ignored, the answer has been delivered in part")
		case retry != nil:
			return rep, retry, nil
		default:
			rep = changed
		}
	}
	if failed.Err != nil {
		return failed, nil, nil
	}
	return rep, nil, nil
}

// withHold returns ctx with a hold for the exchange that begins. An exchange
// within another one uses the hold of that one.
func withHold(ctx context.Context) (context.Context, *local.Hold) {
	if h := local.HoldOf(ctx); h != nil {
		return ctx, h
	}
	return local.WithHold(ctx)
}
