package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A sample is a list of durations.
type sample []time.Duration

// at returns the quantile q, from 0 to 1, or 0 if there are no durations.
func (s sample) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// ms formats a duration in milliseconds, or in seconds from one second.
func ms(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	if d < 10*time.Millisecond && d > -10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
}

// ratio returns figure(other) / figure(one), and the 5th and 95th percentile of the ratio in 500
// bootstrap draws of pairs of rounds.
func ratio[T any](one, other []T, figure func([]T) float64) string {
	const draws = 500
	random := rand.New(rand.NewPCG(1, 2))
	ratios := make([]float64, draws)
	for i := range ratios {
		var a, b []T
		for range one {
			n := random.IntN(len(one))
			a, b = append(a, one[n]), append(b, other[n])
		}
		ratios[i] = figure(b) / figure(a)
	}
	slices.Sort(ratios)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", figure(other)/figure(one), ratios[draws/20], ratios[draws-draws/20-1])
}

// median returns the median of the medians of samples, in seconds.
func median(list []sample) float64 {
	var all sample
	for _, s := range list {
		all = append(all, s.at(0.5))
	}
	return all.at(0.5).Seconds()
}

// mean returns the mean of a list.
func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}
