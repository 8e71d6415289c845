package sandbox

import (
	"fmt"
	"time"
)

// Limits bound one module. A field that is zero has its default.
type Limits struct {
	// ModuleBytes is the largest module that is loaded. Default 16 MiB.
	ModuleBytes int64

	// MemoryBytes bounds the linear memory of one instance. It counts in pages
	// of 64 KiB, rounded down. A module that asks for more from the start is
	// refused; memory.grow beyond it fails inside the guest. At most 4 GiB,
	// default 64 MiB.
	MemoryBytes int64

	// HookTime bounds the guest's own running time in one call, and in the
	// making of an instance. It is looked at each time a slice of fuel is used
	// up, which takes well under a millisecond. Waiting in an import that says
	// so does not count (see Import.Waits). Default 1 s.
	HookTime time.Duration

	// Fuel bounds the work of one call, and of the making of an instance: one
	// for each instruction, one for each 16 bytes that a bulk instruction or an
	// import moves, and 100 for each import called; where a function's locals and
	// the module's mutable globals are more than 64, also for those that are moved
	// where ways through the code meet. Imports and output can cost more: see
	// Guest.ChargeFuel and InstanceConfig.LineFuel. Unlike HookTime it ends the same call at the
	// same place on every machine. Default 10,000,000,000, which takes some seconds.
	Fuel int64

	// StackBytes bounds the stack of a guest's calls of its own functions, as
	// estimated when it is loaded: for code of compilers that is more than it
	// takes; code that is made for it can take some times as much for a moment, and
	// never more than 100 MB. Default 4 MiB.
	StackBytes int64

	// Nesting bounds how many guests may stand on one another: a guest whose
	// import calls another guest, and so on. Each level holds Go stack, which
	// ends the process when it is used up. Default 64.
	Nesting int

	// LogBytes bounds what one call may print to stdout and stderr together,
	// each line counting for 32 bytes more than it has; the rest is counted and
	// dropped. Default 64 KiB.
	LogBytes int

	// LogLineBytes bounds one printed line; the rest of the line is counted and
	// dropped. Default 4 KiB.
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
	pageBytes      = 64 << 10
	maxMemoryBytes = 4 << 30
)

// withDefaults fills in what is zero. It fails on what makes no sense, rather
// than running a guest under another limit than the one that was written down.
func (l Limits) withDefaults() (Limits, error) {
	def(&l.ModuleBytes, DefaultModuleBytes)
	def(&l.MemoryBytes, DefaultMemoryBytes)
	def(&l.HookTime, DefaultHookTime)
	def(&l.Fuel, DefaultFuel)
	def(&l.StackBytes, DefaultStackBytes)
	def(&l.Nesting, DefaultNesting)
	def(&l.LogBytes, DefaultLogBytes)
	def(&l.LogLineBytes, DefaultLogLineBytes)
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

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// bytesText writes a number of bytes the way a person would.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
