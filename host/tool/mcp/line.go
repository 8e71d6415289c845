package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/internal/truncate"
)

// A longLine holds the ends of a line that exceeds the limit.
type longLine struct {
	size       int
	head, tail []byte
}

// endBytes is the maximum number of bytes that are kept of each end of a long line.
const endBytes = 256

// add adds the next piece of the line. It keeps only the first and the last endBytes bytes of the
// line.
func (l *longLine) add(piece []byte) {
	l.size += len(piece)
	l.head = append(l.head, piece[:min(len(piece), endBytes-len(l.head))]...)
	l.tail = append(l.tail, piece[max(0, len(piece)-endBytes):]...)
	l.tail = slices.Delete(l.tail, 0, max(0, len(l.tail)-endBytes))
}

// readLine reads a line including its newline. If the line has more than limit bytes, readLine
// returns only its ends, in long, so that a server cannot fill this process's memory.
func readLine(r *bufio.Reader, limit int) (line []byte, long *longLine, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		switch {
		case long != nil:
			long.add(piece)
		case len(line)+len(piece) > limit:
			long = &longLine{}
			long.add(line)
			long.add(piece)
			line = nil
		default:
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// idAtHead and idAtTail match the id of a response near its start and near its end. They suffice
// because a member near the start or the end of a one-line JSON object belongs to the outermost
// object.
var (
	idAtHead = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,`)
	idAtTail = regexp.MustCompile(`[,{]\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// id returns the id of a response on a long line. It returns false if it does not find the id near
// either end of the line.
func (l *longLine) id() (int64, bool) {
	m := idAtHead.FindSubmatch(l.head)
	if m == nil {
		m = idAtTail.FindSubmatch(l.tail)
	}
	if m == nil {
		return 0, false
	}
	id, err := strconv.ParseInt(string(m[1]), 10, 64)
	return id, err == nil
}

// Limits of the last lines that are kept for errors.
const (
	maxTailLines     = 10
	maxTailLineBytes = 400
)

// lastLines holds the last lines of a server's output that are not messages.
type lastLines struct {
	mu    sync.Mutex
	lines []string
}

// add adds a line, unless it is blank, and returns its text, truncated to maxTailLineBytes.
func (l *lastLines) add(line []byte) string {
	text := strings.ToValidUTF8(string(bytes.TrimRight(line, "\r\n")), "\ufffd")
	if len(text) > maxTailLineBytes {
		text = truncate.Text(text, maxTailLineBytes) + "…"
	}
	if strings.TrimSpace(text) == "" {
		return text
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == maxTailLines {
		l.lines = slices.Delete(l.lines, 0, 1)
	}
	l.lines = append(l.lines, text)
	return text
}

// String returns the lines as the end of an error message, or "" if there are none.
func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return ""
	}
	return "; it printed last:\n  " + strings.Join(l.lines, "\n  ")
}
