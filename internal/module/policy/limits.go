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

// Limits bounds one module. A zero field has its default. Exceeding a limit is a fault that names
// it, unless the field's comment says otherwise.
type Limits struct {
	// The sandbox's limits: size, memory, time per hook, and output to stdout and stderr. LogBytes
	// and LogLineBytes also apply, separately, to the import "log"; excess text is dropped or cut.
	sandbox.Limits

	// InputBytes bounds a hook's input. The default is 8 MiB.
	InputBytes int

	// OutputBytes bounds a hook's answer, and each argument of a host call. Default 8 MiB.
	OutputBytes int

	// ReplyBytes bounds the reply of one host call. In place of a larger reply, the guest receives an
	// error with code limit; a larger response to an Extism plug-in's HTTP request is a fault. The
	// default is 8 MiB.
	ReplyBytes int

	// HostCalls bounds the host calls of one hook. Calls of WASI, and those with which Extism
	// plug-ins copy bytes, do not count. The default is 10,000.
	HostCalls int

	// FuelSchedule is the version of the fuel schedule, which prices host calls. The default is
	// [FuelSchedule], the newest. A replay uses the version of the recording.
	FuelSchedule int

	// RunFuel bounds the fuel of all hooks of one entry in a run, or in the rest of a run that was
	// paused. Concurrent hooks may each use all that is left. The default is 100 times Fuel.
	RunFuel int64

	// Instances bounds the entry's concurrent calls in a run, nested or parallel. Each has its own
	// instance. The default is 64.
	Instances int
}

// Defaults of [Limits]. Package sandbox has those of the sandbox's limits.
const (
	DefaultInputBytes  = 8 << 20
	DefaultOutputBytes = 8 << 20
	DefaultReplyBytes  = 8 << 20
	DefaultHostCalls   = 10_000
	DefaultInstances   = 64
)

// runHooks is the default RunFuel in multiples of Fuel.
const runHooks = 100

// MaxBytes is the largest value of a limit in bytes. Lengths are i32 in the ABI.
const MaxBytes = 1 << 30

// WithDefaults returns l with defaults in place of zero fields, except for the sandbox's limits. It
// returns an error if a field is out of range.
func WithDefaults(l Limits) (Limits, error) {
	for _, f := range []struct {
		name  string
		field *int
		value int
		limit int
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
		case *f.field < 0, *f.field > f.limit:
			return l, fmt.Errorf("limit %s is %d; want 1 to %d", f.name, *f.field, f.limit)
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

// A LimitError is the cause of a fault: the module exceeded a limit.
type LimitError struct {
	Limit string // name of the limit, such as "output_bytes"
	Max   int
	What  string // description of the value that exceeded the limit
	Fix   string // advice; may be empty
}

func (e *LimitError) Error() string {
	if e.Limit == ending.LimitMemory { // a limit of the run, not of the module
		return e.What
	}
	text := fmt.Sprintf("%s, more than the limit %s of %d", e.What, e.Limit, e.Max)
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}
