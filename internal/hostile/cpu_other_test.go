//go:build !linux

package hostile

import "time"

var epoch = time.Now()

// threadTime is the time of the clock, where that of a thread is not to be had.
func threadTime() time.Duration { return time.Since(epoch) }

// threadDelay is not known here.
func threadDelay() time.Duration { return 0 }
