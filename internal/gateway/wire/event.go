package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// An EventReader divides a stream of server-sent events, each with the blank line that ends it.
type EventReader struct {
	r   *bufio.Reader
	max int
	b   []byte

	grow func(n int) error // reserves memory for b
}

// NewEventReader returns a reader of events of at most max bytes. It calls grow, unless that is
// nil, after its buffer became n bytes larger, and stops with grow's error.
func NewEventReader(r io.Reader, max int, grow func(n int) error) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, 16<<10), max: max, grow: grow}
}

// Next returns the next event, which is valid until the next call. At the end of the stream the error is io.EOF. If
// the stream ends with an event without its blank line, Next returns this event and io.ErrUnexpectedEOF. The error for
// an event that is too large is a *Error with CodeUpstream. Errors of the stream and of grow are returned as they are.
func (e *EventReader) Next() ([]byte, error) {
	e.b = e.b[:0]
	line := 0 // where the current line begins
	for {
		part, err := e.r.ReadSlice('\n')
		before := cap(e.b)
		e.b = append(e.b, part...)
		if e.grow != nil {
			if full := e.grow(cap(e.b) - before); full != nil {
				return nil, full
			}
		}
		switch {
		case len(e.b) > e.max:
			return nil, Errorf(CodeUpstream, "the upstream sent an event of more than %d bytes", e.max)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(e.b)) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return e.b, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		if len(bytes.TrimRight(e.b[line:], "\r\n")) == 0 && line > 0 {
			return e.b, nil
		}
		line = len(e.b)
	}
}
