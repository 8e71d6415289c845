package chain

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/chunk"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// An exchange is one call that the rings wrap, of the model or of a tool: Q
// is what is asked, P a patch of it, R what is answered. The rules of order
// are the same for both and stand here; what differs is a kind.
type exchange[Q, P, R any] struct {
	run  *Run
	kind kind[Q, P, R]
	// core is the model, or the gates and the tool.
	core func(ctx context.Context, q Q, out chunk.Sink) (reply[R], error)
	// delivered reports whether chunks have left the outermost ring.
	delivered func() bool
	callID    string // of a tool's call
	before    abi.Hook
	wrap      abi.Hook
	after     abi.Hook

	held account.Meter // what wrappers sent and answered
}

// A reply is an answer or an error, and who gave it.
type reply[R any] struct {
	res    *R
	err    *abi.Error
	source string
}

// A kind is what distinguishes model calls and tool calls.
type kind[Q, P, R any] interface {
	// callBefore, callWrap and callAfter call one member's hook.
	callBefore(ctx context.Context, m *member, q Q) (Q, *R, record.Verdict, error)
	callWrap(ctx context.Context, m *member, q Q, w *wrapping[Q, P, R]) (*R, record.Verdict, error)
	// callAfter may ask for the call once more: with the Q it returns.
	callAfter(ctx context.Context, m *member, q Q, rep reply[R]) (reply[R], *Q, record.Verdict, error)
	// patch applies a patch that a wrapper gave to next.
	patch(q Q, p P, m *member) (Q, error)
	// chunks are those that say what res says; assemble is the reverse.
	chunks(q Q, res *R) []abi.Chunk
	assemble(res *R, chunks []abi.Chunk) *R
	// end is how a stream of res ends.
	end(res *R) *abi.StreamEnd
	// same reports whether two answers say the same, whoever gave them.
	same(a, b *R) bool
}

// ofTool reports whether it is the call of a tool.
func (x *exchange[Q, P, R]) ofTool() bool { return x.wrap == abi.HookWrapToolCall }

// failure is the code of an error of what is called.
func (x *exchange[Q, P, R]) failure() abi.Code {
	if x.ofTool() {
		return abi.CodeTool
	}
	return abi.CodeModel
}

// call asks q from the outermost ring on. The error is an ending.
func (x *exchange[Q, P, R]) call(ctx context.Context, q Q, out chunk.Sink) (reply[R], *local.Hold, error) {
	ctx, h := withHold(ctx)
	rep, err := x.ring(ctx, Outer, q, outletOf(out, x.delivered))
	return rep, h, err
}

// ring asks q from ring i on inwards: before hooks, then the onion around
// what lies inside, then on_chunk and the after hooks.
func (x *exchange[Q, P, R]) ring(ctx context.Context, i Ring, q Q, out outlet) (reply[R], error) {
	if i == rings {
		return x.core(ctx, q, sinkOf(out))
	}
	if i > Outer && x.bare(i) {
		x.run.streams.Add(1) // each ring has a stream, and they have the same numbers in any pass
		return x.ring(ctx, i+1, q, out)
	}
	q, rep, err := x.runBefore(ctx, i, q)
	if err != nil {
		return rep, err
	}
	short := rep.res != nil || rep.err != nil
	for again := 0; ; again++ {
		s := x.run.newStream(i, x.ofTool(), x.callID, out)
		if !short {
			rep, err = x.onion(ctx, i, x.run.in(i, x.wrap), q, s.outlet())
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
func (x *exchange[Q, P, R]) bare(i Ring) bool {
	for _, h := range [...]abi.Hook{x.before, x.wrap, abi.HookOnChunk, x.after} {
		if len(x.run.in(i, h)) > 0 {
			return false
		}
	}
	return true
}

// Who answered, where it was no entry.
const (
	sourceModel = "model"
	sourceTool  = "tool"
	sourceHost  = "host"
)

// recordedReply is a reply of the model or of a tool from an earlier pass.
func recordedReply[R any](res *R, v record.Verdict, source string) reply[R] {
	if v.Failed != nil {
		return reply[R]{err: v.Failed, source: source}
	}
	return reply[R]{res: res, source: source}
}

// runBefore runs the ring's before hooks. An answer of one of them skips the
// rest and the onion; so does an error.
func (x *exchange[Q, P, R]) runBefore(ctx context.Context, i Ring, q Q) (Q, reply[R], error) {
	var answered, failed reply[R]
	for _, m := range x.run.in(i, x.before) {
		changed, res, v, err := x.kind.callBefore(ctx, m, q)
		switch {
		case err != nil:
			return q, reply[R]{}, err
		case v.Failed != nil && failed.err == nil:
			failed = reply[R]{err: v.Failed, source: m.Name}
		case v.OK():
			q = changed
		}
		if res != nil {
			answered = reply[R]{res: res, source: m.Name}
		}
		if v.Failed != nil && !x.run.ContinueOnError || res != nil && !x.run.ContinueOnResponse {
			break
		}
	}
	if failed.err != nil {
		return q, failed, nil
	}
	return q, answered, nil
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// passChunks lets a reply that has not passed the ring's on_chunk do so, or
// puts together what left it.
func (x *exchange[Q, P, R]) passChunks(ctx context.Context, s *stream, q Q, rep reply[R]) (reply[R], error) {
	if rep.err != nil {
		return rep, nil
	}
	// A tool's result that did not come in chunks is told of once it is there.
	tells := s.out != nil && !s.finished && s.failed == nil && (s.n > 0 || !x.ofTool())
	if !tells && len(s.members) == 0 {
		return rep, nil
	}
	var chunks []abi.Chunk
	if s.n == 0 || len(s.members) > 0 { // else nobody looks at them
		chunks = x.kind.chunks(q, rep.res)
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
		s.id = x.run.streams.Add(1)
		passed, err = s.filter(ctx, chunks, true)
	}
	failed, ok := failedBy[R](err)
	switch {
	case ok:
		return failed, nil
	case err != nil:
		return rep, err
	case s.changed(chunks, passed):
		if err := x.held.Add(size.Chunks(passed)); err != nil {
			return reply[R]{err: ending.LimitFailure("stream", err), source: sourceHost}, nil
		}
		rep.res = x.kind.assemble(rep.res, passed)
	}
	return rep, nil
}

// runAfter runs the ring's after hooks, each on what the one before left,
// until one asks for the call once more.
func (x *exchange[Q, P, R]) runAfter(ctx context.Context, i Ring, q Q, rep reply[R], again int) (reply[R], *Q, error) {
	var failed reply[R]
	for _, m := range x.run.in(i, x.after) {
		changed, retry, v, err := x.kind.callAfter(ctx, m, q, rep)
		switch {
		case err != nil:
			return rep, nil, err
		case v.Failed != nil && x.run.ContinueOnError:
			if failed.err == nil {
				failed = reply[R]{err: v.Failed, source: m.Name}
			}
		case v.Failed != nil:
			rep = reply[R]{err: v.Failed, source: m.Name}
		case v.Faulted:
		case retry != nil && again >= abi.MaxAgain:
			x.run.call(m, x.after).Log(abi.LogWarn, "again: ignored, a call is made once more at most 3 times")
		case retry != nil && !x.ofTool() && x.delivered():
			x.run.call(m, x.after).Log(abi.LogWarn, "again: ignored, the answer has been delivered in part")
		case retry != nil:
			return rep, retry, nil
		default:
			rep = changed
		}
	}
	if failed.err != nil {
		return failed, nil, nil
	}
	return rep, nil, nil
}
