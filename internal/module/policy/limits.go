// Package policy holds what an operator allows one module: its [Limits], its
// [Grants], and the fuel schedules that price host calls. It checks values and
// fills in defaults; packages invoke and sandbox enforce them.
package policy

import (
	"cmp"
	"fmt"
	"math"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// Limits bound one module. A field that is zero has its default. Passing one
// is a fault that names the limit, unless its comment says otherwise.
type Limits struct {
	// Limits of the sandbox: size, memory, time of a hook, output to stdout
	// and stderr. LogBytes and LogLineBytes hold for the import log too, apart
	// from what is printed; what passes them is dropped or cut.
	sandbox.Limits

	// InputBytes bounds a hook's input. Default 8 MiB.
	InputBytes int

	// OutputBytes bounds what a hook answers, and what it hands to one host
	// call. Default 8 MiB.
	OutputBytes int

	// ReplyBytes bounds the reply of one host call. The guest gets an error
	// with code limit instead of a larger one. Default 8 MiB.
	ReplyBytes int

	// HostCalls bounds the calls of imports in one hook, WASI's aside, and those
	// with which Extism plug-ins move bytes.
	// Default 10,000.
	HostCalls int

	// FuelSchedule is the version of the fuel schedule, which says what host calls cost.
	// Default [FuelSchedule], the newest. Replays set the version of the recording.
	FuelSchedule int

	// RunFuel bounds the work of all hooks of one entry in a run, or in what is left
	// of it after a pause. Hooks that run at once may each use up what is left.
	// Default a hundred times Fuel.
	RunFuel int64

	// Instances bounds how many calls of one entry may be under way in a run
	// at once, nested or in parallel: each has an instance. Default 64.
	Instances int
}

// The defaults of [Limits]; those of the sandbox's are in package sandbox.
const (
	DefaultInputBytes  = 8 << 20
	DefaultOutputBytes = 8 << 20
	DefaultReplyBytes  = 8 << 20
	DefaultHostCalls   = 10_000
	DefaultInstances   = 64
)

// runHooks is how many hooks of all the fuel there is a run has by default.
const runHooks = 100

// MaxBytes is the largest limit of bytes: lengths are i32 in the ABI.
const MaxBytes = 1 << 30

// WithDefaults fills in what is zero, apart from the sandbox's limits.
func (l Limits) WithDefaults() (Limits, error) {
	for _, f := range []struct {
		name  string
		field *int
		value int
		most  int
	}{
		{"input_bytes", &l.InputBytes, DefaultInputBytes, MaxBytes},
		{"output_bytes", &l.OutputBytes, DefaultOutputBytes, MaxBytes},
		{"reply_bytes", &l.ReplyBytes, DefaultReplyBytes, MaxBytes},
		{"host_calls", &l.HostCalls, DefaultHostCalls, MaxBytes},
		{"instances", &l.Instances, DefaultInstances, MaxBytes},
		{"fuel_schedule", &l.FuelSchedule, FuelSchedule, FuelSchedule},
	} {
		switch {
		case *f.field == 0:
			*f.field = f.value
		case *f.field < 0, *f.field > f.most:
			return l, fmt.Errorf("limit %s is %d; want 1 to %d", f.name, *f.field, f.most)
		}
	}
	switch fuel := cmp.Or(l.Fuel, sandbox.DefaultFuel); {
	case l.RunFuel < 0:
		return l, fmt.Errorf("limit run_fuel is %d; want 1 or more", l.RunFuel)
	case l.RunFuel == 0 && fuel > math.MaxInt64/runHooks:
		l.RunFuel = math.MaxInt64
	case l.RunFuel == 0:
		l.RunFuel = runHooks * fuel
	}
	return l, nil
}

// A LimitError is the cause of a fault: a limit was passed.
type LimitError struct {
	Limit string // its name
	Max   int
	What  string // that passed it
	Fix   string // may be empty
}

func (e *LimitError) Error() string {
	if e.Limit == ending.LimitMemory { // of the run, not of the module
		return e.What
	}
	text := fmt.Sprintf("%s, more than the limit %s of %d", e.What, e.Limit, e.Max)
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}
