package module

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// minReplayTime is the least that a hook may run in a replay: the machine may be
// a slower one, and what ends the guest there is fuel.
const minReplayTime = time.Minute

// A Replay is what came of replaying a bundle.
type Replay struct {
	// Same says that the module did what was recorded, to the unit of fuel.
	Same bool `json:"same"`
	// Differences are what it did otherwise, a sentence each.
	Differences []string `json:"differences,omitempty"`
	// Incomplete says what of the recording is missing; empty: nothing.
	Incomplete string `json:"incomplete,omitempty"`

	Cause string `json:"cause"` // of the fault, as it was now; empty if there was none
	Fuel  uint64 `json:"fuel"`
	Calls int    `json:"calls"` // host calls, of those that were recorded
}

// Replay does again what a bundle recorded. The error is one that kept it from
// doing so: a module that does not load, or ctx's.
func (l *Loader) Replay(ctx context.Context, b *Bundle) (*Replay, error) {
	m, err := l.LoadBytes(ctx, b.Module, b.Wasm, b.replayLimits())
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer m.Close()
	grants, err := ParseGrants(b.Grants)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	mw, err := m.Configure(ctx, b.Entry, []byte(b.Config), grants)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer mw.Close()
	s := &session{mw: mw, entry: b.Entry, run: b.Run, stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}
	defer s.Close()
	out := &Replay{Incomplete: b.incomplete()}
	for i := range b.Earlier {
		v, err := s.replay(ctx, &b.Earlier[i])
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for _, d := range compare(&b.Earlier[i], v, err) {
			out.Differences = append(out.Differences, fmt.Sprintf("call %d of %d before it, of %s: %s", i+1, len(b.Earlier), v.hook, d))
		}
	}
	v, err := s.replay(ctx, &b.Visit)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out.Fuel, out.Calls = v.report.Fuel, v.replay.calls
	out.Differences = append(out.Differences, b.compare(v, err)...)
	var fault *chain.Fault
	switch {
	case errors.As(err, &fault):
		out.Cause = fault.Text()
	case b.Fault.Judged, b.late(err):
		out.Cause = b.Fault.Cause // of an answer that is the same or is among the differences
	}
	out.Same = len(out.Differences) == 0
	return out, nil
}

// replayLimits returns the limits of the recording with a hook time that slower machines stay below:
// a call that exceeded its time ends at the fuel that it had used. Bundles of hosts that knew no fuel
// schedules were recorded under version 1.
func (b *Bundle) replayLimits() Limits {
	l := b.Limits
	l.FuelSchedule = cmp.Or(l.FuelSchedule, 1)
	l.HookTime = max(minReplayTime, 10*min(l.HookTime, time.Hour))
	return l
}

func (b *Bundle) incomplete() string {
	var missing []string
	if b.Dropped > 0 {
		missing = append(missing, fmt.Sprintf("%d earlier calls of the same instance, which were too large to keep; what they left in its memory is missing", b.Dropped))
	}
	if b.Visit.Cut {
		missing = append(missing, "host calls of the call that faulted, which were too large to keep")
	}
	return strings.Join(missing, "; ")
}

// replay lets an instance do a recorded visit again.
func (s *session) replay(ctx context.Context, recorded *Visit) (*visit, error) {
	m := s.mw.module
	v := &visit{hook: recorded.Hook, limits: &m.limits, config: s.mw.config, logTo: func(int32, string) {}, transport: m.transport,
		input: recorded.Input, pending: recorded.Input, seed: recorded.Seed, replay: &player{visit: recorded}}
	answer := newAnswer(recorded.Hook)
	if answer == nil {
		return v, fmt.Errorf("%q is no hook of a run", short(string(recorded.Hook)))
	}
	if err := v.checkInput(m); err != nil {
		return v, err
	}
	return v, s.serve(ctx, v, answer)
}

// compare tells how a visit went otherwise than the one that was recorded.
func compare(recorded *Visit, v *visit, err error) []string {
	var out []string
	var failed *abi.Error
	switch {
	case errors.As(err, &failed) && !recorded.Failed:
		out = append(out, "it failed now: "+failed.Message)
	case err != nil && !errors.As(err, &failed):
		out = append(out, "it faulted now: "+err.Error())
	case err == nil && recorded.Failed:
		out = append(out, "it failed then, and does not now")
	}
	return append(out, compareWork(recorded, v)...)
}

// compareWork compares what a visit did, whatever it came to.
func compareWork(recorded *Visit, v *visit) []string {
	var out []string
	if recorded.Fuel != v.report.Fuel {
		out = append(out, fmt.Sprintf("it used %d fuel then, and %d now", recorded.Fuel, v.report.Fuel))
	}
	if !bytes.Equal(recorded.Output, v.output) {
		out = append(out, "it wrote another answer")
	}
	if left := len(recorded.Calls) - v.replay.calls; left > 0 {
		out = append(out, fmt.Sprintf("%d of its %d host calls were not made again", left, len(recorded.Calls)))
	}
	return out
}

// compare tells how the visit that faulted went otherwise.
func (b *Bundle) compare(v *visit, err error) []string {
	if b.Fault.Judged {
		return compare(&b.Visit, v, err)
	}
	var out []string
	var fault *chain.Fault
	switch {
	case errors.Is(err, errDiverged):
		out = append(out, err.Error())
	case b.late(err):
	case !errors.As(err, &fault):
		out = append(out, "it did not fault")
	case b.Fault.Limit == "hook_time" && (fault.Limit == "fuel" || fault.Limit == "hook_time"):
		// Time ended it there, and the fuel of that time here.
	default:
		out = append(out, b.Fault.compare(fault)...)
	}
	return append(out, compareWork(&b.Visit, v)...)
}

// late says that the module came to its end there, and here again, but that the
// host had no time left there to read its answer.
func (b *Bundle) late(err error) bool {
	return err == nil && b.Fault.Limit == "hook_time" && !b.Visit.Stopped
}

func (f *BundleFault) compare(now *chain.Fault) []string {
	var out []string
	if f.Cause != now.Text() {
		out = append(out, fmt.Sprintf("the cause was %q, and is %q", f.Cause, now.Text()))
	}
	if f.Stage != now.Stage || f.Limit != now.Limit || f.Value != now.Value {
		out = append(out, fmt.Sprintf("it faulted at stage %q over limit %q of %d, and now at stage %q over limit %q of %d",
			f.Stage, f.Limit, f.Value, now.Stage, now.Limit, now.Value))
	}
	if stack := strings.Split(now.Stack, "\n"); now.Stack != "" && !slices.Equal(f.Stack, stack) {
		out = append(out, "the guest's stack is another")
	}
	return out
}

// answers are what hooks answer.
var answers = map[abi.Hook]any{
	abi.HookBeforeAgent:             abi.BeforeAgentAnswer{},
	abi.HookBeforeModelRewriteState: abi.BeforeModelRewriteStateAnswer{},
	abi.HookBeforeModel:             abi.BeforeModelAnswer{},
	abi.HookWrapModel:               abi.WrapModelAnswer{},
	abi.HookOnChunk:                 abi.OnChunkAnswer{},
	abi.HookAfterModel:              abi.AfterModelAnswer{},
	abi.HookAfterModelRewriteState:  abi.AfterModelRewriteStateAnswer{},
	abi.HookBeforeTool:              abi.BeforeToolAnswer{},
	abi.HookWrapToolCall:            abi.WrapToolCallAnswer{},
	abi.HookGateTool:                abi.GateToolAnswer{},
	abi.HookCallTool:                abi.CallToolAnswer{},
	abi.HookAfterTool:               abi.AfterToolAnswer{},
	abi.HookToolMessages:            abi.ToolMessagesAnswer{},
	abi.HookAfterTools:              abi.AfterToolsAnswer{},
	abi.HookAfterAgent:              abi.AfterAgentAnswer{},
	abi.HookObserve:                 abi.ObserveAnswer{},
	abi.HookTranslateBefore:         abi.TranslateAnswer{},
	abi.HookTranslateAfter:          abi.TranslateAnswer{},
}

// newAnswer returns what a hook's answer is read into, nil if it has none.
func newAnswer(h abi.Hook) any {
	answer, ok := answers[h]
	if !ok {
		return nil
	}
	return reflect.New(reflect.TypeOf(answer)).Interface()
}
