package telemetry

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// maxSpans is the maximum number of spans in a timeline. Further spans are only counted.
const maxSpans = 5000

// Timelines returns a tracer that records timelines of runs, and calls done with each when
// its run has ended or paused. The timeline of a sub-agent is part of its parent's.
func Timelines(done func(ctx context.Context, t *api.Timeline)) tracing.Tracer {
	return timelines{done}
}

type timelines struct {
	done func(ctx context.Context, t *api.Timeline)
}

type placeKey struct{}

// A place is the position of an operation in a timeline: the timeline and the id of the enclosing
// span.
type place struct {
	line   *liveTimeline
	parent int
}

// A liveTimeline is the timeline of an active run.
type liveTimeline struct {
	mu sync.Mutex
	api.Timeline
}

// Start implements [tracing.Tracer].
func (t timelines) Start(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	at, within := ctx.Value(placeKey{}).(place)
	if !within {
		if op.Kind != tracing.OperationRun {
			return ctx, func(tracing.Outcome) {} // not a run
		}
		at = place{line: &liveTimeline{Timeline: api.Timeline{Run: op.Run.ID, Began: time.Now()}}}
	}
	began := time.Now()
	id := at.line.begin(op, at.parent, began)
	inner := ctx
	if id > 0 {
		inner = context.WithValue(ctx, placeKey{}, place{at.line, id})
	}
	return inner, func(o tracing.Outcome) {
		at.line.end(id, op, o, time.Since(began))
		if !within {
			t.done(ctx, at.line.finished())
		}
	}
}

// begin adds a span and returns its id, or 0 if there are too many spans.
func (g *liveTimeline) begin(op tracing.Operation, parent int, now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.Spans) == maxSpans {
		g.Dropped++
		return 0
	}
	s := api.Span{
		ID:      len(g.Spans) + 1,
		Parent:  parent,
		Kind:    string(op.Kind),
		Agent:   op.Run.Agent,
		Step:    op.Run.Step,
		Entry:   op.Entry,
		Hook:    string(op.Hook),
		Model:   op.Model,
		StartUS: now.Sub(g.Began).Microseconds(),
		TookUS:  -1,
	}
	if op.Run.ID != g.Run {
		s.Run = op.Run.ID
	}
	if op.Call != nil {
		s.Tool, s.CallID = op.Call.Name, strings.ToValidUTF8(truncate.Text(op.Call.ID, contract.MaxName), "")
	}
	g.Spans = append(g.Spans, s)
	return s.ID
}

// end records the outcome of the operation whose span has the given id. It does nothing if id is 0.
func (g *liveTimeline) end(id int, op tracing.Operation, o tracing.Outcome, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if id == 0 {
		return
	}
	s := &g.Spans[id-1]
	s.TookUS, s.Fuel, s.Finish, s.Error = took.Microseconds(), o.Fuel, o.FinishReason, errorType(op, o)
	if op.Kind == tracing.OperationHook {
		s.OwnUS = max(0, (took - o.Waited).Microseconds())
	}
	if o.Usage != nil {
		s.Tokens = o.Usage.TotalTokens
	}
}

// finished returns a copy of the timeline, with its spans sorted by start.
func (g *liveTimeline) finished() *api.Timeline {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.Timeline
	t.Spans = slices.Clone(t.Spans)
	slices.SortStableFunc(t.Spans, func(a, b api.Span) int { return cmp.Compare(a.StartUS, b.StartUS) })
	return &t
}
