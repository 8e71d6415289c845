// Package truncate shortens text at character boundaries. It imports nothing of the project.
package truncate

import "unicode/utf8"

// Text returns the longest prefix of s that has at most limit bytes and does not end within a
// character. A negative limit counts as 0.
func Text[T ~string | ~[]byte](s T, limit int) T {
	if len(s) <= limit {
		return s
	}
	return Whole(s[:max(limit, 0)])
}

// Whole returns s without the bytes of an incomplete character at its end. It is for text that was
// cut without regard to characters; other invalid bytes remain.
func Whole[T ~string | ~[]byte](s T) T {
	for start := len(s) - 1; start >= 0 && start > len(s)-utf8.UTFMax; start-- {
		if utf8.RuneStart(s[start]) {
			if !utf8.FullRuneInString(string(s[start:])) {
				return s[:start]
			}
			break
		}
	}
	return s
}
