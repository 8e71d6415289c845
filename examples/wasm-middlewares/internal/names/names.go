// Package names matches tool names against patterns.
package names

import (
	"slices"
	"strings"
)

// Match reports whether name matches one of the patterns. In a pattern, * matches any
// sequence of characters, including none.
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
