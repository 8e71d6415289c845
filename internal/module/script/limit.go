package script

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// A script that passes a limit is asked to end, so that it can tell where it was;
// it has so much more before it is made to.
const (
	graceTime = 50 * time.Millisecond
	graceFuel = 20_000_000
)

func WithGrace(l sandbox.Limits) sandbox.Limits {
	if l.HookTime > 0 && l.Fuel > 0 { // what makes no sense is not to make some
		l.HookTime = min(l.HookTime, math.MaxInt64-graceTime) + graceTime
		l.Fuel = min(l.Fuel, math.MaxInt64-graceFuel) + graceFuel
	}
	return l
}

// isOver tells a script whether it has to end. It asks too often for that to be a
// host call; but a yes for its time is one in a recording, since only that is not
// the same each time.
func isOver(inv *invoke.Invocation, g *sandbox.Guest) bool {
	s := stateOf(inv)
	s.polls++
	ran, fuel := g.Used()
	switch {
	case fuel > inv.Limits.Fuel:
		s.over = fuelExceeded(inv.Limits)
	case ran > inv.Limits.HookTime && inv.Replay == nil, inv.Replay != nil && inv.Replay.Accept(overCall, s.polls):
		s.over = timeExceeded(inv.Limits)
		inv.Recorder.Add(replay.HostCall{Name: overCall, Numbers: []int64{s.polls}}, nil, nil)
	default:
		return false
	}
	return true
}

// An Exceeded is a limit that a script passed.
type Exceeded struct {
	Limit string // its name
	Value int64
	text  string
}

func fuelExceeded(l *policy.Limits) *Exceeded {
	return &Exceeded{Limit: "fuel", Value: l.Fuel, text: fmt.Sprintf("used more than its %d fuel", l.Fuel)}
}

func timeExceeded(l *policy.Limits) *Exceeded {
	return &Exceeded{Limit: "hook_time", Value: int64(l.HookTime), text: fmt.Sprintf("ran longer than %v", l.HookTime)}
}

// Import is the function by which the engine asks whether a script has to end.
func Import() invoke.Import {
	return invoke.Import{Does: "learn that it has passed a limit and is to end", Import: sandbox.Import{
		Module: javascript.ImportModule, Name: javascript.ImportOver, Results: []api.ValueType{api.ValueTypeI32},
		Func: func(ctx context.Context, g *sandbox.Guest, stack []uint64) {
			stack[0] = 0
			if isOver(invoke.Of(ctx), g) {
				stack[0] = 1
			}
		}}}
}

// overCall is the name of a recorded yes to a script that asks whether it is over.
const overCall = "over"

// A state is what the host keeps of one call of a script.
type state struct {
	polls int64     // how often the script asked whether it has to end
	over  *Exceeded // the limit that made the answer yes; nil if none did
}

func stateOf(inv *invoke.Invocation) *state {
	s, ok := inv.State.(*state)
	if !ok {
		s = &state{}
		inv.State = s
	}
	return s
}
