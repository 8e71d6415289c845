//go:build !linux

package sandbox

import "time"

// threadTime returns 0: the processor time of a thread is unknown on this system.
func threadTime() (thread int, used time.Duration) { return 0, 0 }

// threadTimeAtMost returns 0, like threadTime.
func threadTimeAtMost() (thread int, used time.Duration) { return 0, 0 }
