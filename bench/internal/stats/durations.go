package stats

import (
	"fmt"
	"slices"
	"time"
)

// Durations is a list of measured times.
type Durations []time.Duration

// At returns the quantile q, from 0 to 1, or 0 if the list is empty.
func (d Durations) At(q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Milliseconds formats a duration in milliseconds, with one decimal below 10 ms.
func Milliseconds(d time.Duration) string {
	if d.Abs() < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
}
