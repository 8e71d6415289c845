package stats

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
