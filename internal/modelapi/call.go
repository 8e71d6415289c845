package modelapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
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

// Causes with which a call's timers cancel it.
var (
	errFirstByte = errors.New("no answer in time")
	errIdle      = errors.New("a pause in the answer")
)

// A Call is one HTTP request to an endpoint.
type Call struct {
	*Endpoint
	Context context.Context // context of the request; the call's timers cancel it
	Body    []byte

	parent context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	model  string

	idle  time.Duration
	begun bool // the first byte of the answer was read
	ended bool // the answer is complete except for its usage

	held account.Meter // memory of the request's body and of the answer read so far
}

// NewCall returns a call that sends body, a request for the given model. The caller must close it.
// NewCall fails if body exceeds the memory of the run in ctx.
func (e *Endpoint) NewCall(ctx context.Context, body []byte, modelName string) (*Call, error) {
	k := &Call{Endpoint: e, parent: ctx, Body: body, model: modelName, idle: e.IdleTimeout}
	k.Context, k.cancel = context.WithCancelCause(ctx)
	k.held.Of = account.FromContext(ctx)
	k.timer = time.AfterFunc(e.FirstByteTimeout, func() { k.cancel(errFirstByte) })
	if err := k.hold(int64(len(body))); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Close stops the timer, cancels the request and releases the memory.
func (k *Call) Close() {
	k.timer.Stop()
	k.cancel(nil)
	k.held.Release()
}

// Ended records that the answer is complete except for its usage. It shortens the idle timeout.
func (k *Call) Ended() { k.ended, k.idle = true, min(k.idle, afterEnd) }

// Do sends the call's body with the headers of req. Reading the body of the response is subject to
// the call's limits and timeouts. A status of 300 or above is an error.
func (k *Call) Do(req *http.Request) (*http.Response, error) {
	req.URL.RawQuery = k.query
	req.Body = io.NopCloser(bytes.NewReader(k.Body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(k.Body)), nil }
	req.ContentLength = int64(len(k.Body))
	req.Header.Set("User-Agent", "agent-runner")
	for name, value := range k.Headers {
		req.Header.Set(name, value)
	}
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		return nil, k.statusError(resp, b, k.model)
	}
	resp.Body = &body{call: k, r: resp.Body, left: k.MaxAnswer}
	return resp, nil
}

// hold reserves n bytes in the memory account in the call's context, until Close. If they do not fit,
// it fails with the code abi.CodeLimit.
func (k *Call) hold(n int64) error {
	if err := k.held.Add(n); err != nil {
		return model.Errorf(abi.CodeLimit, "%s was not asked, or its answer dropped: %v", k.Shown, err)
	}
	return nil
}

// heldTimes is the number of copies of the data that the client holds: one as received, one
// decoded.
const heldTimes = 2

// A body reads an answer within its size limit and timeouts.
type body struct {
	call *Call
	r    io.ReadCloser
	left int64
	over bool // reading has ended, by EOF or an error
}

// Read runs the timer only while it waits for the endpoint, so that a slow reader does not count as
// a slow endpoint.
func (b *body) Read(p []byte) (int, error) {
	k := b.call
	if b.left < 0 {
		return 0, k.tooLarge()
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
		return 0, k.tooLarge()
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
