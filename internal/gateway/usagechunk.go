package gateway

import (
	"bytes"
	"errors"
	"io"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// withUsageChunk returns body with a request for the chunk with the usage, and true. It returns body unchanged, and
// false, if it already requests the chunk, does not request a stream, or has invalid stream_options.
func withUsageChunk(body []byte) ([]byte, bool) {
	v, err := rawjson.Parse(body)
	options := v.Get("stream_options")
	if err != nil || !v.Get("stream").IsTrue() || options.Get("include_usage").IsTrue() {
		return body, false
	}
	e := rawjson.Edits{Doc: body}
	switch {
	case options.IsObject():
		e.Members(options, map[string][]byte{"include_usage": []byte("true")})
	case options.IsNull():
		e.Members(v, map[string][]byte{"stream_options": []byte(`{"include_usage":true}`)})
	default: // the upstream rejects it
		return body, false
	}
	return e.Apply(), true
}

// A usageRemover is the body of a streamed chat completion without the chunk that only has the usage.
type usageRemover struct {
	io.Closer
	events *wire.EventReader
	rest   []byte // of the current event
	err    error
}

// removeUsage returns body without the chunk of the usage. It counts the memory for what it reads ahead in held.
func removeUsage(body io.ReadCloser, held *memory) io.ReadCloser {
	return &usageRemover{Closer: body, events: wire.NewEventReader(body, maxEvent, held.charge)}
}

// Read implements [io.Reader].
func (r *usageRemover) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		event, err := r.events.Next()
		if errors.Is(err, io.ErrUnexpectedEOF) && len(event) > 0 {
			err = io.EOF // the last event has no blank line
		}
		if r.err = err; !hasOnlyUsage(event) {
			r.rest = event
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// hasOnlyUsage reports whether an event is a chunk with the usage and without choices.
func hasOnlyUsage(event []byte) bool {
	if !bytes.Contains(event, []byte(`"usage"`)) {
		return false
	}
	_, data, _ := bytes.Cut(event, []byte("data:"))
	v, err := rawjson.Parse(bytes.TrimSpace(data))
	return err == nil && v.Get("usage").IsObject() && v.Get("choices").IsArray() && len(v.Get("choices").Elements()) == 0
}
