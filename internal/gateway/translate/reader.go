package translate

import (
	"cmp"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// maxEvent limits one event of an upstream, in bytes.
const maxEvent = 16 << 20

// afterEnd is the time for which events after the end of an answer, such as the usage, are awaited.
const afterEnd = 250 * time.Millisecond

// A reader translates the upstream's stream to the client's. It passes text as it arrives, and a tool
// call once it is complete.
type reader struct {
	body   io.ReadCloser
	events *wire.EventReader
	up     wire.Stream
	w      wire.Writer
	usage  bool

	calls map[int]*openCall // the calls that are not complete, by block
	last  *time.Timer       // closes body after the end of the answer if the upstream does not
	out   []byte            // bytes that Read has not returned yet
	err   error             // the error that Read returns after out
}

// An openCall is a tool call that is not complete.
type openCall struct {
	id, name  string
	arguments strings.Builder
}

// Stream returns the client's stream for body, the upstream's streamed answer to q. grow reserves n more bytes of
// memory. If body has more than max bytes, or grow returns a *wire.Error, the stream ends with the event of an error.
// If the upstream's stream is cut, the error of Read is io.ErrUnexpectedEOF. The caller closes the stream, which closes
// body.
func (p Pair) Stream(body io.ReadCloser, q *Request, max int, grow func(n int) error) io.ReadCloser {
	return &reader{
		body:   body,
		events: wire.NewEventReader(&limited{r: body, left: max, grow: grow}, min(max, maxEvent), grow),
		up:     p.Upstream.NewStream(q.Model),
		w:      p.Client.NewWriter(q.Model),
		usage:  q.usage,
		calls:  map[int]*openCall{},
	}
}

// A limited reader fails after left bytes. It reserves the memory that the upstream's codec uses for
// them.
type limited struct {
	r    io.Reader
	left int
	grow func(n int) error
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= n; l.left < 0 {
		return 0, wire.Errorf(wire.CodeUpstream, "the upstream's answer is too large")
	}
	if full := l.grow(n); full != nil {
		return 0, full
	}
	return n, err
}

// Close closes the upstream's stream.
func (r *reader) Close() error {
	if r.last != nil {
		r.last.Stop()
	}
	return r.body.Close()
}

// Read reads events for the client.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.out) == 0 && r.err == nil {
		r.next()
	}
	if len(r.out) == 0 {
		return 0, r.err
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// next reads one event of the upstream.
func (r *reader) next() {
	event, err := r.events.Next()
	complete := r.up.Complete()
	switch {
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF) && len(event) > 0:
	case complete:
		r.end()
		return
	default:
		r.fail(err)
		return
	}
	items, failed := r.up.Decode(event)
	if failed == nil {
		if failure := r.up.Failure(); failure != nil {
			failed = reported(failure)
		}
	}
	if failed != nil {
		if err != nil {
			failed = err // the event was cut, too
		}
		r.fail(failed)
		return
	}
	for i := range items {
		r.item(&items[i])
	}
	if r.up.Complete() && r.last == nil {
		r.last = time.AfterFunc(afterEnd, func() { _ = r.body.Close() })
	}
	if err != nil && !r.up.Complete() {
		r.fail(err)
	}
}

// reported returns the error for a failure that the upstream reported in its stream.
func reported(failure []byte) error {
	text := ""
	if v, err := rawjson.Parse(failure); err == nil {
		text = messageOf(v)
	}
	return wire.Errorf(wire.CodeUpstream, "the upstream failed: %.500s", text)
}

// item writes the client's events for an item of the upstream's stream.
func (r *reader) item(it *wire.Item) {
	switch call := r.calls[it.Block]; {
	case it.Kind == wire.Ping:
		r.out = append(r.out, ": ping\n\n"...)
	case it.Kind == wire.Open && it.Chunk.Kind == abi.ChunkToolCall:
		r.calls[it.Block] = &openCall{id: it.Chunk.ID, name: it.Chunk.Name}
	case it.Kind == wire.Delta && call != nil:
		call.arguments.WriteString(it.Chunk.Arguments)
	case it.Kind == wire.Delta && it.Chunk.Kind == abi.ChunkText && it.Chunk.Text != "":
		r.out = r.w.Text(r.out, it.Chunk.Kind, it.Chunk.Text)
	case it.Kind == wire.Close && call != nil:
		delete(r.calls, it.Block)
		c := abi.NewToolCall(call.id, call.name, cmp.Or(call.arguments.String(), "{}"))
		r.out = r.w.Call(r.out, &c)
	}
}

// end writes the end of the answer.
func (r *reader) end() {
	res := r.up.Response()
	if !r.usage {
		res.Usage = nil
	}
	r.out, r.err = r.w.End(r.out, finishOf(res.FinishReason), res.Usage), io.EOF
}

// fail ends the client's stream with an error of the upstream, or cuts it as the upstream's is cut.
func (r *reader) fail(err error) {
	known, ok := errors.AsType[*wire.Error](err)
	if !ok {
		r.err = io.ErrUnexpectedEOF
		return
	}
	r.out, r.err = r.w.Error(r.out, known), io.EOF
}
