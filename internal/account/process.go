package account

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Process returns the account of this process, the root of all others. Its limit is half of the
// memory available to the process, until SetLimit changes it.
var Process = sync.OnceValue(func() *Account {
	return New(LevelProcess, "process", nil, memory()/2)
})

// Default limits.
const (
	// DefaultRun is the default limit of a run, in bytes. An input has at most 8 MiB, and the host
	// holds it as messages, as their encoding for guests, and in the journal's next entry. The
	// answers of the model and of parallel tools take about as much again.
	DefaultRun = 64 << 20
	// DefaultPending is the default limit of the pending events and changes of a run, in bytes.
	DefaultPending = 4 << 20
	// tenantPart is the divisor of the process's limit that yields a tenant's default.
	tenantPart = 4
)

// DefaultTenant returns the limit, in bytes, of a tenant that has no quota: a quarter of the
// process's limit.
func DefaultTenant(process *Account) int64 { return process.Limit() / tenantPart }

// fallback is the assumed memory, in bytes, of a machine that does not report its size.
const fallback = 2 << 30

// memory returns the memory available to the process in bytes: the Go runtime's limit if one is
// set, or else the machine's memory.
func memory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fallback
	}
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(f[1], 10, 54); err == nil && n > 0 {
				return n << 10
			}
		}
	}
	return fallback
}
