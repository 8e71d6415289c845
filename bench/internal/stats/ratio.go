package stats

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// A Ratio is the ratio of a figure between two lists of rounds. Low and High are the 5th and the 95th
// percentile of the ratio in bootstrap draws.
type Ratio struct{ Value, Low, High float64 }

// NewRatio returns figure(other) / figure(one), with its range in 500 bootstrap draws of pairs of rounds.
// Rounds with the same index are a pair.
func NewRatio[T any](one, other []T, figure func([]T) float64) Ratio {
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
	return Ratio{figure(other) / figure(one), ratios[draws/20], ratios[draws-draws/20-1]}
}

// String returns the ratio with its range, such as "1.20 (1.05 to 1.31)".
func (r Ratio) String() string { return fmt.Sprintf("%.2f (%.2f to %.2f)", r.Value, r.Low, r.High) }
