// Package policy defines what an operator allows a module: its [Limits], its [Grants], and the fuel
// schedules with the costs of host calls. The package checks values and sets defaults. Packages
// invoke and sandbox enforce the limits and grants.
package policy

import (
	"cmp"
	"fmt"
	"math"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// Limits are the limits of one module. A field that is zero has its default. Unless the field's
// comment says otherwise, exceeding a limit is a fault that names the limit.
type Limits struct {
	// The sandbox's limits are on size, memory, time per hook, and output to stdout and stderr.
	// LogBytes and LogLineBytes also apply to the import "log", which has its own count. Text
	// beyond LogBytes is dropped, and lines are truncated to LogLineBytes.
	sandbox.Limits

	// InputBytes is the maximum size of a hook's input, in bytes. The default is 8 MiB.
	InputBytes int

	// OutputBytes is the maximum size, in bytes, of a hook's answer and of each argument of a host
	// call. The default is 8 MiB.
	OutputBytes int

	// ReplyBytes is the maximum size of the reply of one host call, in bytes. Instead of a larger
	// reply, the guest receives an error with code limit. A larger response to an HTTP request of
	// an Extism plug-in is a fault. The default is 8 MiB.
	ReplyBytes int

	// HostCalls is the maximum number of host calls of one hook. Calls of WASI do not count, and
	// neither do the calls with which Extism plug-ins copy bytes. The default is 10,000.
	HostCalls int

	// FuelSchedule is the version of the fuel schedule, which defines the costs of host calls. The
	// default is the newest version, [FuelSchedule]. A replay uses the version of the recording.
	FuelSchedule int

	// RunFuel is the maximum fuel of all hooks of one entry in a run. A run that was paused starts
	// again with all of RunFuel. Concurrent hooks may each use all of the remaining fuel. The
	// default is 100 times Fuel.
	RunFuel int64

	// Instances is the maximum number of the entry's concurrent calls in a run, nested or parallel.
	// Each call has its own instance. The default is 64.
	Instances int
}

// Defaults of [Limits]. Package sandbox defines the defaults of the sandbox's limits.
const (
	DefaultInputBytes  = 8 << 20
	DefaultOutputBytes = 8 << 20
	DefaultReplyBytes  = 8 << 20
	DefaultHostCalls   = 10_000
	DefaultInstances   = 64
)

// runHooks is the default RunFuel in multiples of Fuel.
const runHooks = 100

// MaxBytes is the maximum value of a limit in bytes. Lengths in the ABI are of type i32.
const MaxBytes = 1 << 30

// WithDefaults returns l with its zero fields set to their defaults. It leaves the sandbox's limits
// unchanged. WithDefaults returns an error if a field is out of range.
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

// A LimitError is the cause of a fault because the module exceeded a limit.
type LimitError struct {
	Limit string // name of the limit, such as "output_bytes"
	Max   int
	What  string // the value that exceeded the limit, in words
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
