package account

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Process returns the account of this process, the root of all others. Its limit is
// half of the memory that the process may use, until SetLimit changes it.
var Process = sync.OnceValue(func() *Account {
	return New(LevelProcess, "process", nil, memory()/2)
})

// Defaults of the limits.
const (
	// DefaultRun is the limit of a run. An input has at most 8 MiB, and the host holds
	// it as messages, as their encoding for guests and in the journal's next entry;
	// the answers of the model and of parallel tools come to about as much again.
	DefaultRun = 64 << 20
	// DefaultPending is the limit of the pending events and changes of a run.
	DefaultPending = 4 << 20
	// tenantPart is the part of the process's limit that a tenant has by default.
	tenantPart = 4
)

// DefaultTenant returns the limit of a tenant that has no quota: a quarter of that
// of the process.
func DefaultTenant(process *Account) int64 { return process.Limit() / tenantPart }

// fallback is the memory of a machine that does not say how much it has.
const fallback = 2 << 30

// memory returns how much memory the process may use: the Go runtime's limit if one
// is set, or else the machine's memory.
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
