// Package exchange makes one call of the model or of a tool through the rings of a chain:
// before hooks, wrappers, streams of chunks and after hooks.
//
// An [Exchange] takes a request and a [Kind], and returns a [Reply]. It implements the order of
// hooks once for model calls and tool calls, and a Kind implements their differences. The package
// calls hooks through package hook and does not depend on the agent's loop.
package exchange

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// An Exchange is one call of the model or of a tool through the rings. Q is the type of the
// request, P of a patch of the request, and R of the answer.
type Exchange[Q, P, R any] struct {
	Run  *hook.Run
	Kind Kind[Q, P, R]
	// Core calls the model, or the gates and the tool.
	Core func(ctx context.Context, q Q, out pipe.Sink) (Reply[R], error)
	// Delivered reports whether the caller has received chunks from the outermost ring.
	Delivered func() bool
	CallID    string // id of the tool call; empty for model calls
	Tool      string // name of the tool; empty for model calls
	Before    abi.Hook
	Wrap      abi.Hook
	After     abi.Hook

	Held account.Meter // memory of the wrappers' chunks and answers
}

// A Reply is an answer or an error, with its source. Labels are the labels of the answer or of the
// error's text; if nil, [Exchange.LabelsOf] derives them from the source.
type Reply[R any] struct {
	Res    *R
	Err    *abi.Error
	Source string
	Labels []string
}

// LabelsOf returns the labels of a reply, or the labels that follow from the reply's source if it
// has none.
func (x *Exchange[Q, P, R]) LabelsOf(rep Reply[R]) []string {
	if rep.Labels != nil {
		return rep.Labels
	}
	return message.SourceLabels(rep.Source, x.Tool)
}

// shown returns the answer in rep as member m gets it: with its labels if m reads labels.
func (x *Exchange[Q, P, R]) shown(m *hook.Member, rep Reply[R]) *R {
	if !m.ReadsLabels() {
		return rep.Res
	}
	return x.Kind.Labelled(rep.Res, x.LabelsOf(rep))
}

// changedBy returns the labels of an answer of an entry that has seen replies: the entry's own
// label and the labels of the replies.
func (x *Exchange[Q, P, R]) changedBy(entry string, replies ...Reply[R]) []string {
	labels := []string{message.EntryLabel(entry)}
	for _, rep := range replies {
		labels = append(labels, x.LabelsOf(rep)...)
	}
	return message.JoinLabels(labels)
}

// A Kind implements the differences between model calls and tool calls.
type Kind[Q, P, R any] interface {
	// Applies reports whether the hooks of member m are called for a call with request q.
	Applies(m *hook.Member, q Q) bool
	// Before, Wrap and After call one member's hook.
	Before(ctx context.Context, m *hook.Member, q Q) (Q, *R, record.Verdict, error)
	Wrap(ctx context.Context, m *hook.Member, q Q, w *Wrapping[Q, P, R]) (*R, record.Verdict, error)
	// After may return a request, with which the call is then repeated.
	After(ctx context.Context, m *hook.Member, q Q, rep Reply[R]) (Reply[R], *Q, record.Verdict, error)
	// Patch returns q with patch p applied. The wrapper m passed p to next.
	Patch(q Q, p P, m *hook.Member) (Q, error)
	// Chunks returns the chunks that are equivalent to res; Assemble is the reverse.
	Chunks(q Q, res *R) []abi.Chunk
	Assemble(res *R, chunks []abi.Chunk) *R
	// End returns the last item of a stream whose result is res.
	End(res *R) *contract.StreamEnd
	// Labelled returns a copy of res with the given labels.
	Labelled(res *R, labels []string) *R
	// Same reports whether two answers have the same content. It ignores their sources.
	Same(a, b *R) bool
}

// ofTool reports whether the exchange calls a tool.
func (x *Exchange[Q, P, R]) ofTool() bool { return x.Wrap == contract.HookWrapToolCall }

// failure returns the error code of a failed call of the model or the tool.
func (x *Exchange[Q, P, R]) failure() abi.Code {
	if x.ofTool() {
		return abi.CodeTool
	}
	return abi.CodeModel
}

// Call makes the call from the outermost ring inward. The caller releases the returned hold after
// it has recorded the outcome. The error ends or pauses the run.
func (x *Exchange[Q, P, R]) Call(ctx context.Context, q Q, out pipe.Sink) (Reply[R], *local.Hold, error) {
	ctx, h := withHold(ctx)
	rep, err := x.ring(ctx, hook.Outer, q, outletOf(out, x.Delivered))
	return rep, h, err
}

// ring makes the call from ring i inward: before hooks, wrappers around the rings inside, then
// on_chunk and after hooks.
func (x *Exchange[Q, P, R]) ring(ctx context.Context, i hook.Ring, q Q, out outlet) (Reply[R], error) {
	if i == hook.RingCount {
		return x.Core(ctx, q, sinkOf(out))
	}
	if i > hook.Outer && x.bare(i) {
		x.Run.StreamIDs.Add(1) // also number a skipped stream, so that every pass assigns the same numbers
		return x.ring(ctx, i+1, q, out)
	}
	q, rep, err := x.runBefore(ctx, i, q)
	if err != nil {
		return rep, err
	}
	short := rep.Res != nil || rep.Err != nil
	for again := 0; ; again++ {
		chunkers := hook.Only(x.Run.In(i, contract.HookOnChunk), func(m *hook.Member) bool { return x.Kind.Applies(m, q) })
		s := newStream(x.Run, chunkers, x.ofTool(), x.CallID, out)
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
		if q, short = *retry, false; s.n > 0 && !s.restart() {
			out = nil
		}
	}
}

// bare reports whether a ring has no hook that takes part in the exchange, so that the ring can be
// skipped. The outermost ring must not be skipped, because it delivers an answer that did not
// arrive in chunks to the caller.
func (x *Exchange[Q, P, R]) bare(i hook.Ring) bool {
	for _, h := range [...]abi.Hook{x.Before, x.Wrap, contract.HookOnChunk, x.After} {
		if len(x.Run.In(i, h)) > 0 {
			return false
		}
	}
	return true
}

// The sources of answers that come from no entry.
const (
	SourceModel = "model"
	SourceTool  = "tool"
	SourceHost  = "host"
)

// Recorded returns the reply of the model or a tool that an earlier pass recorded: the failure in v
// if there is one, and res otherwise.
func Recorded[R any](res *R, v record.Verdict, source string) Reply[R] {
	if v.Failed != nil {
		return Reply[R]{Err: v.Failed, Source: source}
	}
	return Reply[R]{Res: res, Source: source}
}

// runBefore runs the ring's before hooks. If a hook answers or fails, the wrappers are skipped. The
// remaining before hooks are skipped too, unless ContinueOnResponse is set (after an answer) or
// ContinueOnError is set (after an error).
func (x *Exchange[Q, P, R]) runBefore(ctx context.Context, i hook.Ring, q Q) (Q, Reply[R], error) {
	var answered, failed Reply[R]
	for _, m := range x.Run.In(i, x.Before) {
		if !x.Kind.Applies(m, q) {
			continue
		}
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

// passChunks passes the chunks of a reply through the ring's on_chunk hooks and to the ring
// outside, unless the reply was streamed through them. A tool's result that did not arrive in
// chunks is not passed to the ring outside. If the hooks changed the chunks, passChunks assembles
// the reply from the changed chunks. It returns a failed reply unchanged.
func (x *Exchange[Q, P, R]) passChunks(ctx context.Context, s *stream, q Q, rep Reply[R]) (Reply[R], error) {
	if rep.Err != nil {
		return rep, nil
	}
	// The caller gets a tool's result that did not arrive in chunks as a whole.
	tells := s.out != nil && !s.finished && s.failed == nil && (s.n > 0 || !x.ofTool())
	if !tells && len(s.members) == 0 {
		return rep, nil
	}
	var chunks []abi.Chunk
	if s.n == 0 || len(s.members) > 0 { // otherwise nothing reads the chunks
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
	case s.n > 0 && s.failed == nil && s.received.Equal(chunks):
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
		rep.Labels = x.LabelsOf(rep)
		for _, entry := range s.by {
			rep.Labels = x.changedBy(entry, rep)
		}
		rep.Res = x.Kind.Assemble(rep.Res, passed)
	}
	return rep, nil
}

// runAfter runs the ring's after hooks, each on the reply of the previous one, until one asks to
// repeat the call. It returns the last reply, and the request of the repeated call or nil. again is
// the number of repetitions so far. runAfter ignores a request to repeat the call after
// [contract.MaxAgain] repetitions, or if a part of the model's answer has been delivered.
func (x *Exchange[Q, P, R]) runAfter(
	ctx context.Context,
	i hook.Ring,
	q Q,
	rep Reply[R],
	again int,
) (Reply[R], *Q, error) {
	var failed Reply[R]
	for _, m := range x.Run.In(i, x.After) {
		if !x.Kind.Applies(m, q) {
			continue
		}
		changed, retry, v, err := x.Kind.After(ctx, m, q, rep)
		switch {
		case err != nil:
			return rep, nil, err
		case v.Failed != nil && x.Run.ContinueOnError:
			if failed.Err == nil {
				failed = Reply[R]{Err: v.Failed, Source: m.Name, Labels: x.changedBy(m.Name, rep)}
			}
		case v.Failed != nil:
			rep = Reply[R]{Err: v.Failed, Source: m.Name, Labels: x.changedBy(m.Name, rep)}
		case v.Faulted:
		case retry != nil && again >= contract.MaxAgain:
			x.Run.Call(m, x.After).Log(contract.LogWarn, "again: ignored, a call is made once more at most 3 times")
		case retry != nil && !x.ofTool() && x.Delivered():
			x.Run.Call(m, x.After).Log(contract.LogWarn, "again: ignored, the answer has been delivered in part")
		case retry != nil:
			return rep, retry, nil
		default:
			if changed.Source != rep.Source || changed.Err != rep.Err {
				changed.Labels = x.changedBy(m.Name, rep)
			}
			rep = changed
		}
	}
	if failed.Err != nil {
		return failed, nil, nil
	}
	return rep, nil, nil
}

// withHold returns ctx with a hold for the exchange that begins. An exchange inside another one
// uses the hold of the outer exchange.
func withHold(ctx context.Context) (context.Context, *local.Hold) {
	if h := local.HoldOf(ctx); h != nil {
		return ctx, h
	}
	return local.WithHold(ctx)
}
