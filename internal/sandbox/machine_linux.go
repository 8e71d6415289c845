package sandbox

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// machineMemory is how much memory this process may use in bytes: the machine's,
// or the limit of a container around it.
var machineMemory = sync.OnceValue(func() int64 {
	most := int64(otherMachine)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		most = int64(info.Totalram) * int64(info.Unit)
	}
	const root = "/sys/fs/cgroup"
	limits := []string{filepath.Join(root, "memory/memory.limit_in_bytes")} // version 1
	own, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		// Version 2 has one line, "0::/the/group". In a container it may be told
		// as it is outside, where nothing lies there; the root is looked at too.
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			for dir := filepath.Clean("/" + group); ; dir = filepath.Dir(dir) {
				limits = append(limits, filepath.Join(root, dir, "memory.max"))
				if dir == "/" {
					break
				}
			}
		}
	}
	for _, path := range limits {
		if b, err := os.ReadFile(path); err == nil {
			most = min(most, memoryLimit(string(b)))
		}
	}
	return most
})

// maxMappings is how many mappings this process may have: one that has none left can
// have no memory either, and ends. See max_map_count in
// https://docs.kernel.org/admin-guide/sysctl/vm.html.
var maxMappings = sync.OnceValue(func() int64 {
	b, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return 65_530 // what Linux has if nobody changed it
	}
	return memoryLimit(string(b))
})

const unlimited = math.MaxInt64

// memoryLimit reads what a control group says.
func memoryLimit(text string) int64 {
	var n int64
	if _, err := fmt.Sscan(text, &n); err != nil || n <= 0 {
		return unlimited
	}
	return n
}
