package main

import (
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// ms formats a duration in milliseconds, or in seconds from one second.
func ms(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return stats.Milliseconds(d)
}

// median returns the median of the medians of rounds, in seconds.
func median(rounds []stats.Durations) float64 {
	var all stats.Durations
	for _, r := range rounds {
		all = append(all, r.At(0.5))
	}
	return all.At(0.5).Seconds()
}

// mean returns the mean of a list.
func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}
