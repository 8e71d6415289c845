package telemetry

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// MaxSpans is the maximum number of spans in a timeline.
const MaxSpans = 5000

// A Timeline holds the operations of a run as nested spans.
type Timeline struct {
	Run     string    `json:"run"`
	Began   time.Time `json:"began"`
	Spans   []Span    `json:"spans"`             // in order of their start
	Dropped int       `json:"dropped,omitempty"` // number of operations beyond MaxSpans, which have no span
}

// A Span is one operation of a run.
type Span struct {
	ID      int                   `json:"id"`               // starts at 1
	Parent  int                   `json:"parent,omitempty"` // ID of the enclosing span; 0 if there is none
	Kind    tracing.OperationKind `json:"kind"`
	Run     string                `json:"run,omitempty"` // ID of the run if it differs from the timeline's, as for sub-agents
	Agent   string                `json:"agent,omitempty"`
	Step    int                   `json:"step,omitempty"`
	Entry   string                `json:"entry,omitempty"`
	Hook    abi.Hook              `json:"hook,omitempty"`
	Model   string                `json:"model,omitempty"`
	Tool    string                `json:"tool,omitempty"`
	CallID  string                `json:"call_id,omitempty"`
	StartUS int64                 `json:"start_us"`         // start since Timeline.Began, in microseconds
	TookUS  int64                 `json:"took_us"`          // duration in microseconds; -1 if the operation has not ended
	OwnUS   int64                 `json:"own_us,omitempty"` // duration of a hook without the calls that it wraps, in microseconds
	Fuel    int64                 `json:"fuel,omitempty"`   // fuel used by a hook
	Tokens  int64                 `json:"tokens,omitempty"` // total tokens of a model call
	Error   string                `json:"error,omitempty"`  // kind of failure, or empty
	Finish  string                `json:"finish,omitempty"` // finish reason of a run or a model call
}

// Timelines returns a tracer that records timelines of runs, and calls done with each when
// its run has ended or paused. The timeline of a sub-agent is part of its parent's.
func Timelines(done func(ctx context.Context, t *Timeline)) tracing.Tracer { return timelines{done} }

type timelines struct {
	done func(ctx context.Context, t *Timeline)
}

type placeKey struct{}

// A place is the position of an operation in a timeline.
type place struct {
	line   *growing
	parent int
}

// A growing is the timeline of an active run.
type growing struct {
	mu sync.Mutex
	Timeline
}

// Start implements [tracing.Tracer].
func (t timelines) Start(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	at, within := ctx.Value(placeKey{}).(place)
	if !within {
		if op.Kind != tracing.OperationRun {
			return ctx, func(tracing.Outcome) {} // of no run
		}
		at = place{line: &growing{Timeline: Timeline{Run: op.Run.ID, Began: time.Now()}}}
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
func (g *growing) begin(op tracing.Operation, parent int, now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.Spans) == MaxSpans {
		g.Dropped++
		return 0
	}
	s := Span{
		ID:      len(g.Spans) + 1,
		Parent:  parent,
		Kind:    op.Kind,
		Agent:   op.Run.Agent,
		Step:    op.Run.Step,
		Entry:   op.Entry,
		Hook:    op.Hook,
		Model:   op.Model,
		StartUS: now.Sub(g.Began).Microseconds(),
		TookUS:  -1,
	}
	if op.Run.ID != g.Run {
		s.Run = op.Run.ID
	}
	if op.Call != nil {
		s.Tool, s.CallID = op.Call.Name, strings.ToValidUTF8(op.Call.ID[:min(len(op.Call.ID), contract.MaxName)], "")
	}
	g.Spans = append(g.Spans, s)
	return s.ID
}

func (g *growing) end(id int, op tracing.Operation, o tracing.Outcome, took time.Duration) {
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
func (g *growing) finished() *Timeline {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.Timeline
	t.Spans = slices.Clone(t.Spans)
	slices.SortStableFunc(t.Spans, func(a, b Span) int { return cmp.Compare(a.StartUS, b.StartUS) })
	return &t
}
