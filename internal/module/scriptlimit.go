package module

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// A script that passes a limit is asked to end, so that it can tell where it was;
// it has so much more before it is made to.
const (
	graceTime = 50 * time.Millisecond
	graceFuel = 20_000_000
)

func graced(l sandbox.Limits) sandbox.Limits {
	if l.HookTime > 0 && l.Fuel > 0 { // what makes no sense is not to make some
		l.HookTime = min(l.HookTime, math.MaxInt64-graceTime) + graceTime
		l.Fuel = min(l.Fuel, math.MaxInt64-graceFuel) + graceFuel
	}
	return l
}

// isOver tells a script whether it has to end. It asks too often for that to be a
// host call; but a yes for its time is one in a recording, since only that is not
// the same each time.
func (v *visit) isOver(g *sandbox.Guest) bool {
	v.polls++
	ran, fuel := g.Used()
	switch {
	case fuel > v.limits.Fuel:
		v.over = overFuel(v.limits)
	case ran > v.limits.HookTime && v.replay == nil, v.replay != nil && v.replay.isOver(v.polls):
		v.over = overTime(v.limits)
		v.recorder.add(HostCall{Name: callOver, Numbers: []int64{v.polls}}, nil, nil)
	default:
		return false
	}
	return true
}

// An overLimit is a limit that a script passed.
type overLimit struct {
	limit string // its name
	value int64
	text  string
}

func overFuel(l *Limits) *overLimit {
	return &overLimit{limit: "fuel", value: l.Fuel, text: fmt.Sprintf("used more than its %d fuel", l.Fuel)}
}

func overTime(l *Limits) *overLimit {
	return &overLimit{limit: "hook_time", value: int64(l.HookTime), text: fmt.Sprintf("ran longer than %v", l.HookTime)}
}

// scriptImport is what the engine asks whether a script has to end.
func scriptImport() sandbox.Import {
	return sandbox.Import{Module: javascript.ImportModule, Name: javascript.ImportOver, Results: []api.ValueType{api.ValueTypeI32},
		Func: func(ctx context.Context, g *sandbox.Guest, stack []uint64) {
			stack[0] = 0
			if visitOf(ctx).isOver(g) {
				stack[0] = 1
			}
		}}
}

// callOver is the name of a recorded yes to a script that asks whether it is over.
const callOver = "over"

// isOver answers a script that asks for so many times whether it is over.
func (p *player) isOver(polls int64) bool {
	if p.calls == len(p.visit.Calls) {
		return false
	}
	next := &p.visit.Calls[p.calls]
	if next.Name != callOver || !slices.Equal(next.Numbers, []int64{polls}) {
		return false
	}
	p.calls++
	return true
}
