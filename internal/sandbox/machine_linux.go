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

// machineMemory returns the memory in bytes that this process may use: the machine's, or the
// limit of its container.
var machineMemory = sync.OnceValue(func() int64 {
	limit := int64(unknownMachine)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		limit = int64(info.Totalram) * int64(info.Unit)
	}
	const root = "/sys/fs/cgroup"
	files := []string{filepath.Join(root, "memory/memory.limit_in_bytes")} // version 1
	own, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		// Version 2 has one line, "0::/the/group". In a container, this may be the path outside of the container,
		// which does not exist inside. The limits of all parent directories are therefore read too.
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			for dir := filepath.Clean("/" + group); ; dir = filepath.Dir(dir) {
				files = append(files, filepath.Join(root, dir, "memory.max"))
				if dir == "/" {
					break
				}
			}
		}
	}
	for _, path := range files {
		if b, err := os.ReadFile(path); err == nil {
			limit = min(limit, memoryLimit(string(b)))
		}
	}
	return limit
})

const unlimited = math.MaxInt64

// memoryLimit parses the memory limit of a control group in bytes. It returns unlimited for "max"
// and for malformed input.
func memoryLimit(text string) int64 {
	var n int64
	if _, err := fmt.Sscan(text, &n); err != nil || n <= 0 {
		return unlimited
	}
	return n
}
