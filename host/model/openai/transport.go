package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/account"
)

const (
	// maxErrorBody is the maximum number of bytes that are read from an error response.
	maxErrorBody = 64 << 10
	// afterEnd bounds the pause after the answer is complete, when only the usage may follow.
	afterEnd = 5 * time.Second
	// drain and drainBytes bound the time and the bytes for reading a finished stream to its end,
	// so that its connection can be reused.
	drain      = 100 * time.Millisecond
	drainBytes = 4 << 10
)

// httpClient returns the client for requests, and whether it is the package's own.
func httpClient(opts Options) (*http.Client, bool) {
	// A redirect would send the key to another host. The user should configure the target instead.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if opts.HTTPClient != nil {
		c := *opts.HTTPClient
		c.CheckRedirect = stay
		return &c, false
	}
	return &http.Client{CheckRedirect: stay, Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: opts.ConnectTimeout}).DialContext,
		TLSHandshakeTimeout:    opts.ConnectTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}}, true
}

// Causes with which a call's timers cancel it.
var (
	errFirstByte = errors.New("no answer in time")
	errIdle      = errors.New("a pause in the answer")
)

// A call is one HTTP request. It implements go-openai's HTTPDoer.
type call struct {
	client *Client
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	body   []byte
	stream bool
	model  string

	idle  time.Duration
	begun bool // the first byte of the answer was read
	ended bool // the answer is complete except for its usage
	whole bool // the answer is one document, not a stream

	held account.Meter // memory of the request's body and of the answer read so far
}

func newCall(ctx context.Context, c *Client, body []byte, stream bool, modelName string) *call {
	k := &call{client: c, parent: ctx, body: body, stream: stream, model: modelName, idle: c.opts.IdleTimeout}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	k.held.Of = account.FromContext(ctx)
	k.timer = time.AfterFunc(c.opts.FirstByteTimeout, func() { k.cancel(errFirstByte) })
	return k
}

// close stops the timer, cancels the request and releases the memory.
func (k *call) close() {
	k.timer.Stop()
	k.cancel(nil)
	k.held.Release()
}

// shortenIdle marks the answer as complete except for its usage, and limits the idle timeout to afterEnd.
func (k *call) shortenIdle() { k.ended, k.idle = true, min(k.idle, afterEnd) }

// Do sends the call's body instead of go-openai's. It returns a stream with one event per line,
// whatever the form of the answer. A status of 300 or above is an error.
func (k *call) Do(req *http.Request) (*http.Response, error) {
	c := k.client
	req.URL.RawQuery = c.query
	req.Body = io.NopCloser(bytes.NewReader(k.body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(k.body)), nil }
	req.ContentLength = int64(len(k.body))
	req.Header.Set("User-Agent", "agent-runner")
	if !k.stream {
		req.Header.Set("Accept", "application/json")
	}
	for name, value := range c.opts.Headers {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		return nil, c.statusError(resp, b, k.model)
	}
	b := &body{call: k, r: resp.Body, left: c.opts.MaxAnswer}
	events, err := k.events(bufio.NewReader(b), resp.Header.Get("Content-Type"))
	if err != nil {
		resp.Body.Close()
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
		return &events{r: r, client: k.client}, nil
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if !json.Valid(b) {
		return nil, k.client.notJSON(b)
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

// hold reserves n bytes in the memory account in the call's context, until close. If they do not fit,
// it fails with the code abi.CodeLimit.
func (k *call) hold(n int64) error {
	if err := k.held.Add(n); err != nil {
		return model.Errorf(abi.CodeLimit, "%s was not asked, or its answer dropped: %v", k.client.shown, err)
	}
	return nil
}

// heldTimes is the number of copies of the data that the client holds: one as received, one
// decoded.
const heldTimes = 2

// A body reads an answer within its size limit and timeouts.
type body struct {
	call *call
	r    io.ReadCloser
	left int64
	over bool // reading has ended, by EOF or an error
}

// Read runs the timer only while it waits for the endpoint, so that a slow reader does not count as
// a slow endpoint.
func (b *body) Read(p []byte) (int, error) {
	k := b.call
	if b.left < 0 {
		return 0, k.client.tooLarge()
	}
	if k.begun {
		// The first byte has its own timer.
		k.timer = time.AfterFunc(k.idle, func() { k.cancel(errIdle) })
	}
	// Read one byte more than the limit, to distinguish an answer that exceeds it from one that
	// just fits.
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if k.begun || n > 0 || err != nil {
		k.timer.Stop()
	}
	k.begun = k.begun || n > 0
	b.over = b.over || err != nil
	if b.left -= int64(n); b.left < 0 {
		return 0, k.client.tooLarge()
	}
	if err := k.hold(heldTimes * int64(n)); err != nil {
		return 0, err
	}
	return n, err
}

// Close closes the body. If the answer is complete, it first reads a little further, so that the
// connection can be reused.
func (b *body) Close() error {
	if b.call.ended && !b.over {
		b.call.idle = drain
		_, _ = io.CopyN(io.Discard, b, drainBytes)
	}
	return b.r.Close()
}
