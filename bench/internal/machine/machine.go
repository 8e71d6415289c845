// Package machine describes the machine on which the benchmarks run.
package machine

import (
	"os"
	"runtime"
	"strings"
)

// Processor returns the name of the processor.
func Processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				return strings.Trim(name, " \t:\n")
			}
		}
	}
	return runtime.GOARCH
}

// LoadAverage returns the average number of runnable processes in the last minute, or "unknown". Their
// load affects measurements.
func LoadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if first, _, ok := strings.Cut(string(b), " "); err == nil && ok {
		return first
	}
	return "unknown"
}
