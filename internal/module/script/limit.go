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

// A script that exceeds a limit must end by itself, so that it can report its position. If it
// exceeds the limit by more than the grace, the host stops it.
const (
	graceTime = 50 * time.Millisecond
	graceFuel = 20_000_000
)

// WithGrace returns l with the grace added to HookTime and Fuel, if both are positive.
func WithGrace(l sandbox.Limits) sandbox.Limits {
	if l.HookTime > 0 && l.Fuel > 0 { // otherwise the sandbox rejects them
		l.HookTime = min(l.HookTime, math.MaxInt64-graceTime) + graceTime
		l.Fuel = min(l.Fuel, math.MaxInt64-graceFuel) + graceFuel
	}
	return l
}

// isOver reports whether the script must end because it exceeded a limit. Calls of the import do
// not count as host calls, because the engine makes too many of them. If the script must end
// because of its time, isOver records this like a host call, because the time differs between a
// recording and its replay.
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

// An ExceededLimit is a limit that a script exceeded, and the text for the error.
type ExceededLimit struct {
	Limit string // name of the limit, such as "fuel"
	Value int64
	text  string
}

func fuelExceeded(l *policy.Limits) *ExceededLimit {
	return &ExceededLimit{Limit: "fuel", Value: l.Fuel, text: fmt.Sprintf("used more than its %d fuel", l.Fuel)}
}

func timeExceeded(l *policy.Limits) *ExceededLimit {
	return &ExceededLimit{
		Limit: "hook_time",
		Value: int64(l.HookTime),
		text:  fmt.Sprintf("ran longer than %v", l.HookTime),
	}
}

// Import returns the import by which the engine asks whether the script must end.
func Import() invoke.Import {
	return invoke.Import{Does: "ask whether it exceeded a limit and must end", Import: sandbox.Import{
		Module: javascript.ImportModule, Name: javascript.ImportOver, Results: []api.ValueType{api.ValueTypeI32},
		Func: func(ctx context.Context, g *sandbox.Guest, stack []uint64) {
			stack[0] = 0
			if isOver(invoke.Of(ctx), g) {
				stack[0] = 1
			}
		}}}
}

// overCall is the name of the recorded host call that means that the script had to end because of
// its time.
const overCall = "over"

// A state is the host's data for one call of a script.
type state struct {
	polls int64          // number of times that the script asked whether it must end
	over  *ExceededLimit // the exceeded limit; nil if none
}

func stateOf(inv *invoke.Invocation) *state {
	s, ok := inv.State.(*state)
	if !ok {
		s = &state{}
		inv.State = s
	}
	return s
}
