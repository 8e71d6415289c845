package sandbox

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// recentLines is how many lines are kept for Fault.Output.
const recentLines = 16

// lineCost is what each line counts on top of its bytes, since whoever gets it
// has work with each.
const lineCost = 32

// lines makes what a guest prints to one stream into lines that are safe to
// show: bounded, and without anything a terminal would obey.
type lines struct {
	in   *Instance
	sink func(line []byte)
	buf  []byte // the line that is not complete yet
	cut  int    // bytes of it that were dropped
}

// write takes what was printed, as far as the budget of the call allows.
func (l *lines) write(b []byte) {
	in := l.in
	for len(b) > 0 {
		left := in.image.limits.LogBytes - in.printed
		if left <= 0 {
			in.report.Dropped += len(b)
			return
		}
		line, _, complete := bytes.Cut(b[:min(len(b), left)], []byte{'\n'})
		b = b[len(line):]
		in.printed += len(line)
		fuel := int64(len(line)) * in.config.ByteFuel
		if complete {
			b = b[1:]
			in.printed += lineCost
			fuel += in.config.LineFuel
		}
		in.charge(fuel)
		if room := in.image.limits.LogLineBytes - len(l.buf); len(line) > room {
			l.cut += len(line) - room
			in.report.Dropped += len(line) - room
			line = line[:room]
		}
		l.buf = append(l.buf, line...)
		if complete {
			l.emit()
		}
	}
}

// flush ends a line that the guest did not end.
func (l *lines) flush() {
	if len(l.buf) > 0 {
		l.emit()
	}
}

func (l *lines) emit() {
	line := escape(bytes.TrimSuffix(l.buf, []byte{'\r'}))
	if l.cut > 0 {
		line = fmt.Appendf(line, "… (%d bytes more)", l.cut)
	}
	l.buf, l.cut = l.buf[:0], 0
	l.in.remember(line)
	if l.sink != nil {
		l.in.guest.Wait(func() { l.sink(line) }) // whoever reads may be slow
	}
}

// remember keeps the last lines for a fault, and the line that tells most: the
// first in which a language runtime gives up, since stack traces follow it, or
// the last one.
func (in *Instance) remember(line []byte) {
	if len(in.recent) == recentLines {
		in.recent = append(in.recent[:0], in.recent[1:]...)
	}
	in.recent = append(in.recent, line)
	if !in.gaveUp {
		in.words = line
		in.gaveUp = bytes.Contains(line, []byte("panic")) || bytes.Contains(line, []byte("fatal error"))
	}
}

// reportDropped says at the end of a call that not all of its output was kept.
func (in *Instance) reportDropped() {
	if in.report.Dropped > 0 && in.stderr.sink != nil {
		in.stderr.sink(fmt.Appendf(nil, "(%d bytes of output dropped: the limit is %s a call, %s a line)",
			in.report.Dropped, bytesText(int64(in.image.limits.LogBytes)), bytesText(int64(in.image.limits.LogLineBytes))))
	}
}

// escape writes what does not print, and what is not UTF-8, as Go would.
func escape(b []byte) []byte {
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
