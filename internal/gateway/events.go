package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// maxEvent limits one event of an upstream, in bytes.
const maxEvent = 16 << 20

// An eventReader divides a stream of server-sent events, each with the blank line that ends it.
type eventReader struct {
	r    *bufio.Reader
	b    []byte
	held *memory // counts b
}

func newEventReader(r io.Reader, held *memory) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 16<<10), held: held}
}

// next returns the next event, until the following call. For an event without the blank line, at the end
// of the stream, the error is io.ErrUnexpectedEOF.
func (e *eventReader) next() ([]byte, error) {
	e.b = e.b[:0]
	line := 0 // where the current line begins
	for {
		part, err := e.r.ReadSlice('\n')
		before := cap(e.b)
		e.b = append(e.b, part...)
		if full := e.held.add(cap(e.b) - before); full != nil {
			return nil, full
		}
		switch {
		case len(e.b) > maxEvent:
			return nil, wire.Errorf(wire.CodeUpstream, "the upstream sent an event of more than %d bytes", maxEvent)
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
