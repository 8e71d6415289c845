// Package stats summarizes measurements.
package stats

import "slices"

// Median returns the median of a list, which must not be empty. For an even length it is the mean
// of the two middle values.
func Median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}
