//go:build !linux

package sandbox

import "time"

// threadTime is not known here.
func threadTime() (thread int, used time.Duration) { return 0, 0 }

// threadTimeAtMost is not known either.
func threadTimeAtMost() (thread int, most time.Duration) { return 0, 0 }
