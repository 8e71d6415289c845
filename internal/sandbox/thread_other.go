//go:build !linux

package sandbox

import "time"

// threadTime returns zeros: the processor time of a thread is unknown on this system.
func threadTime() (thread int, used time.Duration) { return 0, 0 }

// threadTimeAtMost returns zeros, like threadTime.
func threadTimeAtMost() (thread int, used time.Duration) { return 0, 0 }
