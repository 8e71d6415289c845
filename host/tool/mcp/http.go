package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A roundTripper is the SDK's connection to the network. It adds the headers to requests, limits
// and rewrites responses, and cancels all requests when gone is done.
type roundTripper struct {
	next    http.RoundTripper
	own     *http.Transport // set if next is not the options' Guard
	url     *url.URL
	headers map[string]string
	max     int
	gone    context.Context
}

// newTransport returns the SDK's transport for the URL of the options. All requests are canceled
// when gone is done.
func newTransport(gone context.Context, o *Options) (*sdk.StreamableClientTransport, *roundTripper, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, nil, err
	}
	rt := &roundTripper{next: o.Guard, url: u, headers: o.Headers, max: o.MaxMessage, gone: gone}
	if rt.next == nil {
		rt.own = http.DefaultTransport.(*http.Transport).Clone()
		rt.next = rt.own
	}
	return &sdk.StreamableClientTransport{
		Endpoint:   o.URL,
		HTTPClient: &http.Client{Transport: rt},
		MaxRetries: 2,
		// Slightly more than eventReader lets through.
		MaxEventSize: o.MaxMessage + 64<<10,
		// The client ignores unsolicited messages of the server.
		DisableStandaloneSSE: true,
	}, rt, nil
}

// close closes idle connections if the transport is not the caller's.
func (t *roundTripper) close() {
	if t.own != nil {
		t.own.CloseIdleConnections()
	}
}

// RoundTrip sends a request. The headers may be secret, so a redirect to another host does not
// receive them.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(t.gone, cancel)
	end := func() { stop(); cancel() }

	id := requestID(req)
	req = req.Clone(ctx)
	if req.URL.Scheme == t.url.Scheme && req.URL.Host == t.url.Host {
		for name, value := range t.headers {
			req.Header.Set(name, value)
		}
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = &body{Reader: t.reader(resp, id), Closer: resp.Body, end: end}
	return resp, nil
}

// reader limits a response according to its type. The SDK ends the session for most errors in a
// response, and with it unrelated calls. reader converts such errors to an error answer to this
// request.
func (t *roundTripper) reader(resp *http.Response, id int64) io.Reader {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case id == 0 || resp.StatusCode != http.StatusOK:
		return io.LimitReader(resp.Body, 64<<10)
	case kind == "application/json":
		return &wholeReader{r: resp.Body, id: id, max: t.max}
	case kind == "text/event-stream":
		return &eventReader{r: bufio.NewReaderSize(resp.Body, 64<<10), id: id, max: t.max}
	default:
		resp.Header.Set("Content-Type", "application/json")
		return bytes.NewReader(
			encode(failed(id, "the server answered with content of type %q, not JSON or an event stream", kind)),
		)
	}
}

// requestID returns the id of the JSON-RPC call in a request, or 0.
func requestID(req *http.Request) int64 {
	if req.GetBody == nil {
		return 0
	}
	r, err := req.GetBody()
	if err != nil {
		return 0
	}
	defer r.Close()
	var call struct {
		ID int64 `json:"id"`
	}
	b, err := io.ReadAll(r)
	if err != nil || json.Unmarshal(b, &call) != nil {
		return 0
	}
	return call.ID
}

type body struct {
	io.Reader
	io.Closer
	end func()
}

func (b *body) Close() error {
	err := b.Closer.Close()
	b.end()
	return err
}

// A wholeReader reads one JSON response. It replaces a response that is too large, incomplete or not
// a JSON-RPC message with an error answer.
type wholeReader struct {
	r    io.Reader
	id   int64
	max  int
	text *bytes.Reader
}

func (w *wholeReader) Read(p []byte) (int, error) {
	if w.text == nil {
		w.text = bytes.NewReader(w.whole())
	}
	return w.text.Read(p)
}

func (w *wholeReader) whole() []byte {
	b, err := io.ReadAll(io.LimitReader(w.r, int64(w.max)+1))
	if err == nil && len(b) > w.max {
		var rest int64
		rest, err = io.Copy(io.Discard, w.r)
		if err == nil {
			return encode(failed(w.id, tooLarge, len(b)+int(rest), w.max))
		}
	}
	if err != nil {
		return encode(failed(w.id, "the answer broke off: %v", err))
	}
	b = exact(b)
	if _, err := jsonrpc.DecodeMessage(b); err != nil {
		return encode(failed(w.id, "the answer is no JSON-RPC message: %v", err))
	}
	return b
}

// encode encodes an error answer. Encoding one cannot fail.
func encode(r *jsonrpc.Response) []byte {
	b, err := jsonrpc.EncodeMessage(r)
	if err != nil {
		return nil
	}
	return b
}

// An eventReader reads an event stream line by line. It replaces events that are too large or not a
// JSON-RPC message with error answers.
type eventReader struct {
	r    *bufio.Reader
	id   int64
	max  int
	line []byte // not returned by Read yet
	err  error  // returned by Read after line
}

func (e *eventReader) Read(p []byte) (int, error) {
	for len(e.line) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		var long *longLine
		e.line, long, e.err = readLine(e.r, e.max)
		switch {
		case long != nil && bytes.HasPrefix(long.head, dataField):
			e.line = event(encode(failed(e.id, tooLarge, long.size-len(dataField), e.max)))
		case long != nil:
			e.line = noEvent
		default:
			e.line = e.checked(e.line)
		}
	}
	n := copy(p, e.line)
	e.line = e.line[n:]
	return n, nil
}

var (
	dataField = []byte("data:")
	noEvent   = []byte(": not read\n") // a comment
)

// checked returns a line or its replacement, so that no line ends the session. It replaces data
// lines that are not complete messages: servers do not split JSON over several lines. It drops an
// incomplete last line.
func (e *eventReader) checked(line []byte) []byte {
	if !bytes.HasSuffix(line, []byte("\n")) {
		return nil // incomplete last line
	}
	name, message, ok := bytes.Cut(line, dataField)
	switch {
	case ok && len(name) == 0:
		message = bytes.TrimSpace(message)
		if len(message) == 0 {
			return line
		}
		message = exact(message)
		if _, err := jsonrpc.DecodeMessage(message); err != nil {
			return event(encode(failed(e.id, "an event is no JSON-RPC message: %v", err)))
		}
		return event(message)
	case len(bytes.TrimSpace(line)) > 0 && !bytes.Contains(line, []byte(":")):
		return noEvent
	default:
		return line
	}
}

func event(message []byte) []byte {
	return append(append([]byte("data: "), message...), '\n')
}
