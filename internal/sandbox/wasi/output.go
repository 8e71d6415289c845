package wasi

import (
	"bytes"
	"fmt"

	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// recentLines is the maximum number of lines that Process.Output returns.
const recentLines = 16

// lineCost is the number of bytes that each line counts in addition to its length, because
// the sink has to process each line.
const lineCost = 32

// lines splits what a guest prints to one stream into lines of bounded length without control characters, which are
// safe to show on a terminal.
type lines struct {
	process *Process
	sink    func(line []byte)
	buf     []byte // the incomplete line
	cut     int    // number of dropped bytes of the line beyond LogLineBytes
	partial bool   // whether the end of the line was dropped because of LogBytes or LogLineBytes
}

// write accepts printed bytes as far as the limits of the call allow, and counts the rest as
// dropped.
func (l *lines) write(b []byte) {
	p := l.process
	for len(b) > 0 {
		left := p.config.LogBytes - p.printed
		if left <= 0 {
			p.dropped += len(b)
			l.partial = len(l.buf) > 0
			return
		}
		line, _, complete := bytes.Cut(b[:min(len(b), left)], []byte{'\n'})
		b = b[len(line):]
		p.printed += len(line)
		fuel := int64(len(line)) * p.config.ByteFuel
		if complete {
			b = b[1:]
			p.printed += lineCost
			fuel += p.config.LineFuel
		}
		p.guest.Charge(fuel)
		if room := p.config.LogLineBytes - len(l.buf); len(line) > room {
			l.cut += len(line) - room
			l.partial = true
			p.dropped += len(line) - room
			line = line[:room]
		}
		l.buf = append(l.buf, line...)
		if complete {
			l.emit()
		}
	}
}

// flush emits an incomplete line.
func (l *lines) flush() {
	if len(l.buf) > 0 {
		l.emit()
	}
}

// emit sends the line to the sink.
func (l *lines) emit() {
	line, cut := l.buf, l.cut
	if l.partial {
		line = truncate.Whole(line)
		n := len(l.buf) - len(line)
		l.process.dropped += n
		cut += n
	}
	line = text.Escape(bytes.TrimSuffix(line, []byte{'\r'}))
	if l.cut > 0 {
		line = fmt.Appendf(line, "… (%d bytes more)", cut)
	}
	l.buf, l.cut, l.partial = l.buf[:0], 0, false
	l.process.remember(line)
	if l.sink != nil {
		l.process.guest.Wait(func() { l.sink(line) }) // the reader may be slow
	}
}

// remember stores a line as one of the last lines, and as the reason if it explains a failure best.
func (p *Process) remember(line []byte) {
	if len(p.recent) == recentLines {
		p.recent = append(p.recent[:0], p.recent[1:]...)
	}
	p.recent = append(p.recent, line)
	p.explain(line)
}

// explain stores a line as the reason if it explains a failure best; see [Process.Reason].
func (p *Process) explain(line []byte) {
	if !p.gaveUp {
		p.reason = line
		p.gaveUp = bytes.Contains(line, []byte("panic")) || bytes.Contains(line, []byte("fatal error"))
	}
}

// reportDropped prints to stderr how much output of the call was dropped. It prints nothing if none was.
func (p *Process) reportDropped() {
	if p.dropped > 0 && p.stderr.sink != nil {
		p.stderr.sink(fmt.Appendf(nil, "(%d bytes of output dropped: the limit is %s a call, %s a line)",
			p.dropped, text.Bytes(int64(p.config.LogBytes)), text.Bytes(int64(p.config.LogLineBytes))))
	}
}
