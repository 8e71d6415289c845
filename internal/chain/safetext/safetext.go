package safetext

import (
	"fmt"
	"strings"
)

// clip bounds a guest's text and makes it safe to show.
func Clip(s string, most int) string {
	if len(s) > most {
		return Clean(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return Clean(s)
}

// cleanText makes a guest's text safe to show: valid UTF-8, without characters
// that a terminal would obey, or that make text look other than it is.
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

// unsafeRune reports control characters but the ends of lines and tabs, and
// those that turn the direction of text or break lines unseen.
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
