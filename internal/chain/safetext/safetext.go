// Package safetext makes the text of guests and models safe to show in terminals and logs.
package safetext

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Clip returns the first limit bytes of s, cleaned, with an ellipsis if s was longer. The result
// can be longer than limit, because Clean replaces characters with escapes.
func Clip(s string, limit int) string {
	if len(s) > limit {
		return Clean(truncate.Text(s, limit)) + "…"
	}
	return Clean(s)
}

// Clean returns s as valid UTF-8. It replaces control characters other than newline and tab, and
// characters that change how surrounding text is displayed, with escapes.
func Clean(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		switch {
		case !unsafeRune(c):
			b.WriteRune(c)
		case c <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// unsafeRune reports whether c is a control character other than newline and tab, changes the
// direction of text, or breaks lines invisibly.
func unsafeRune(c rune) bool {
	switch {
	case c == '\n', c == '\t':
		return false
	case c < 0x20, c >= 0x7f && c < 0xa0:
		return true
	default:
		return c >= 0x2028 && c <= 0x202e || c >= 0x2066 && c <= 0x2069
	}
}
