//go:build !linux

package hostile

import "time"

var epoch = time.Now()

// threadTime returns elapsed time, because the processor time of a thread is unknown here.
func threadTime() time.Duration { return time.Since(epoch) }

// threadDelay returns 0: the delay is unknown here.
func threadDelay() time.Duration { return 0 }
