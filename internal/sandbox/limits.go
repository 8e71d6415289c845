package sandbox

import (
	"cmp"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// Limits bound one module. A field of 0 means its default.
type Limits struct {
	// ModuleBytes is the size of the largest module that is loaded. The default is 16 MiB.
	ModuleBytes int64

	// MemoryBytes bounds the linear memory of one instance. It is rounded down to pages of
	// 64 KiB. A module whose initial memory is larger is rejected; memory.grow beyond the
	// limit fails inside the guest. The default is 64 MiB, the maximum 4 GiB.
	MemoryBytes int64

	// HookTime bounds the guest's own running time in one call, and in the creation of an instance.
	// It is checked at the end of each slice of fuel; a slice usually takes well under a
	// millisecond. Time in imports that wait does not count, see Import.Waits. The default is 1 s.
	HookTime time.Duration

	// Fuel bounds the work of one call, and of the creation of an instance: 1 for each instruction,
	// 1 for each 16 bytes that a bulk instruction or an import moves, and 100 for each call of an
	// import. If a function's locals and the module's mutable globals are more than 64, those that
	// are moved where control flow joins count too. Imports and output can cost more, see
	// Guest.ChargeFuel and InstanceConfig.LineFuel. Unlike HookTime, Fuel ends a call at the same
	// place on every machine. The default is 10,000,000,000, which lasts some seconds.
	Fuel int64

	// StackBytes bounds the stack of a guest's calls of its own functions, as estimated when
	// the module is loaded. Compilers' output uses less than the estimate; code written to
	// defeat it can use a few times as much for a moment, and never more than 100 MB.
	// The default is 4 MiB.
	StackBytes int64

	// Nesting bounds the depth of guests whose imports call other guests. Each level uses Go
	// stack, and a Go stack overflow would crash the process. The default is 64.
	Nesting int

	// LogBytes bounds the output of one call to stdout and stderr together. Each line counts
	// 32 bytes in addition to its length. The rest is counted and dropped. The default is 64 KiB.
	LogBytes int

	// LogLineBytes bounds one line of output. The rest of the line is counted and dropped.
	// The default is 4 KiB.
	LogLineBytes int
}

// The defaults of [Limits].
const (
	DefaultModuleBytes  = 16 << 20
	DefaultMemoryBytes  = 64 << 20
	DefaultHookTime     = time.Second
	DefaultFuel         = 10_000_000_000
	DefaultStackBytes   = 4 << 20
	DefaultNesting      = 64
	DefaultLogBytes     = 64 << 10
	DefaultLogLineBytes = 4 << 10
)

const (
	pageBytes      = verify.PageBytes
	maxMemoryBytes = verify.MaxMemoryBytes
)

// withDefaults returns the limits with defaults, or an error if a limit is out of range.
func (l Limits) withDefaults() (Limits, error) {
	l.ModuleBytes = cmp.Or(l.ModuleBytes, DefaultModuleBytes)
	l.MemoryBytes = cmp.Or(l.MemoryBytes, DefaultMemoryBytes)
	l.HookTime = cmp.Or(l.HookTime, DefaultHookTime)
	l.Fuel = cmp.Or(l.Fuel, DefaultFuel)
	l.StackBytes = cmp.Or(l.StackBytes, DefaultStackBytes)
	l.Nesting = cmp.Or(l.Nesting, DefaultNesting)
	l.LogBytes = cmp.Or(l.LogBytes, DefaultLogBytes)
	l.LogLineBytes = cmp.Or(l.LogLineBytes, DefaultLogLineBytes)
	switch {
	case l.ModuleBytes < 0, l.MemoryBytes < 0, l.HookTime < 0, l.Fuel < 0, l.StackBytes < 0,
		l.Nesting < 0, l.LogBytes < 0, l.LogLineBytes < 0:
		return l, fmt.Errorf("sandbox: a limit is negative: %+v", l)
	case l.MemoryBytes < pageBytes:
		return l, fmt.Errorf("sandbox: limit MemoryBytes is %d, less than one page of %d bytes", l.MemoryBytes, pageBytes)
	case l.MemoryBytes > maxMemoryBytes:
		return l, fmt.Errorf("sandbox: limit MemoryBytes is %d, more than the 4 GiB a module can address", l.MemoryBytes)
	}
	l.MemoryBytes -= l.MemoryBytes % pageBytes
	return l, nil
}
