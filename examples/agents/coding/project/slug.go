// Package slug makes parts of addresses out of titles.
package slug

import (
	"strings"
	"unicode"
)

// Of returns the letters and digits of a title in small letters, with hyphens
// between words.
func Of(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteRune(r)
		} else {
			b.WriteByte('-')
		}
	}
	return b.String()
}
