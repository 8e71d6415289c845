package main

import "slices"

// middle is the median of what samples say.
func middle(list []*sample, of func(*sample) float64) float64 {
	var all []float64
	for _, s := range list {
		all = append(all, of(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
