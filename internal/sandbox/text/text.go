// Package text formats values for messages: byte counts, long strings and text that a
// guest printed.
package text

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Bytes formats a number of bytes with a binary unit: "64 KiB", "1.5 MiB", "10 bytes".
func Bytes(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}

// Cut shortens s to at most limit bytes, at a character boundary, and appends the number of bytes
// that it removed.
func Cut(s string, limit int) string {
	short := truncate.Text(s, limit)
	if len(short) == len(s) {
		return s
	}
	return short + fmt.Sprintf("… (%d bytes more)", len(s)-len(short))
}

// Escape returns b with unprintable characters, except tabs, and invalid UTF-8 replaced with Go escapes, so that the
// result cannot control a terminal.
func Escape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1, r < 0x20 && r != '\t', r == 0x7f:
			out = fmt.Appendf(out, `\x%02x`, b[0])
		case r == '\t' || unicode.IsPrint(r):
			out = append(out, b[:n]...)
		case r > 0xffff:
			out = fmt.Appendf(out, `\U%08x`, r)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out
}
