// Package suggest finds the names that are similar to a misspelled one. It imports the standard
// library only.
package suggest

import "slices"

// Closest returns the names that are similar to name: at most three, with an edit distance
// of at most three, nearest first.
func Closest(name string, names []string) []string {
	const limit, far = 3, 3
	type near struct {
		name     string
		distance int
	}
	var found []near
	for _, n := range names {
		// The distance is at least the difference of the lengths. This check also bounds the
		// cost of very long names.
		if len(n) > len(name)+far || len(name) > len(n)+far {
			continue
		}
		// Names without a common character are not similar, however short they are.
		if d := Distance(name, n); d <= far && d < max(len(name), len(n)) {
			found = append(found, near{n, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.distance - b.distance })
	var out []string
	for _, f := range found[:min(limit, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// Distance returns the Levenshtein distance of two strings, in bytes. It computes the distance row
// by row.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
