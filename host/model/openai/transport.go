package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/agent-runner/agent-runner/internal/modelapi"
)

// A call is one HTTP request. It implements go-openai's HTTPDoer.
type call struct {
	*modelapi.Call
	stream bool
	whole  bool // the answer is one document, not a stream
}

// Do sends the call's body instead of go-openai's. It returns a stream with one event per line,
// whatever the form of the answer. A status of 300 or above is an error.
func (k *call) Do(req *http.Request) (*http.Response, error) {
	if !k.stream {
		req.Header.Set("Accept", "application/json")
	}
	resp, err := k.Call.Do(req)
	if err != nil {
		return nil, err
	}
	b := resp.Body
	events, err := k.events(bufio.NewReader(b), resp.Header.Get("Content-Type"))
	if err != nil {
		b.Close()
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{events, b}
	return resp, nil
}

// events returns a stream of the answer with one event per line. It detects the form of the answer
// from its beginning, since some endpoints return a document instead of a stream, a stream instead of
// a document, or the wrong content type. It fails if the answer is neither.
func (k *call) events(r *bufio.Reader, contentType string) (io.Reader, error) {
	first, err := begin(r)
	empty := errors.Is(err, io.EOF)
	if err != nil && !empty {
		return nil, err
	}
	isDocument := first == '{' || first == '[' || first == '<'
	if !isDocument && (empty || strings.HasPrefix(contentType, "text/event-stream") || looksLikeEvents(r)) {
		return &events{r: r, at: k.Endpoint}, nil
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if !json.Valid(b) {
		return nil, k.NotJSON(b)
	}
	k.whole = true
	var line bytes.Buffer
	writeLine(&line, oneLine(b))
	return &line, nil
}

// begin skips a byte order mark and the white space that some endpoints send to keep a connection
// open, and returns the next byte without consuming it.
func begin(r *bufio.Reader) (byte, error) {
	if b, _ := r.Peek(3); string(b) == "\xef\xbb\xbf" {
		_, _ = r.Discard(3)
	}
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, r.UnreadByte()
		}
	}
}

func looksLikeEvents(r *bufio.Reader) bool {
	b, _ := r.Peek(5)
	for _, prefix := range []string{":", "data:", "event", "id:", "retry"} {
		if bytes.HasPrefix(b, []byte(prefix)) {
			return true
		}
	}
	return false
}
