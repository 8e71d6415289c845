// Package names compares the names of tools with patterns.
package names

import (
	"slices"
	"strings"
)

// Match reports whether one of the patterns is the name. In a pattern * stands
// for any characters, also none.
func Match(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		head, rest, star := strings.Cut(pattern, "*")
		left, ok := strings.CutPrefix(name, head)
		if !ok || !star {
			return ok && left == ""
		}
		parts := strings.Split(rest, "*")
		last := parts[len(parts)-1]
		for _, part := range parts[:len(parts)-1] {
			if _, left, ok = strings.Cut(left, part); !ok {
				return false
			}
		}
		return strings.HasSuffix(left, last)
	})
}
