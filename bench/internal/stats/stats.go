// Package stats is what is told of many measurements.
package stats

import "slices"

// Median is the one in the middle, or what is between the two there. There is to be
// one at least.
func Median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}
