// Package sse writes responses of server-sent events. It does not depend on what the events mean.
package sse

import (
	"context"
	"net/http"
	"time"
)

// HeartbeatInterval is the longest time for which [Stream.Wait] sends nothing. After it, Wait sends
// a comment.
const HeartbeatInterval = 15 * time.Second

// A Stream is a response of server-sent events. A nil Stream is a response that has not begun. Only
// its method Wait may be called.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // for the client to read one part
	silence *time.Timer   // expires HeartbeatInterval after the last part
	Err     error         // the first failure to write
}

// New begins a response. part limits the time in which the client reads one part of the stream. A
// slower client is disconnected.
func New(w http.ResponseWriter, part time.Duration) *Stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies must not buffer events
	w.WriteHeader(http.StatusOK)
	return &Stream{w: w, control: http.NewResponseController(w), timeout: part, silence: time.NewTimer(HeartbeatInterval)}
}

// Retry tells the client to reconnect one second after the stream breaks.
func (s *Stream) Retry() { s.Send([]byte("retry: 1000\n\n")) }

// Beat sends a comment, which keeps the connection alive.
func (s *Stream) Beat() { s.Send([]byte(": still here\n\n")) }

// Send writes the pieces as one part of the stream, and flushes it. After an error, Send does
// nothing.
func (s *Stream) Send(pieces ...[]byte) {
	if s.Err != nil {
		return
	}
	s.silence.Reset(HeartbeatInterval)
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	for _, b := range pieces {
		if _, s.Err = s.w.Write(b); s.Err != nil {
			return
		}
	}
	s.Err = s.control.Flush()
}

// Wait waits until done is closed, and keeps the connection alive meanwhile. It returns false if
// ctx is done first, for example because the client has disconnected.
func (s *Stream) Wait(ctx context.Context, done <-chan struct{}) bool {
	return s.WaitEither(ctx, done, nil)
}

// WaitEither is like Wait, but also returns true when other is closed. A nil channel is never closed.
func (s *Stream) WaitEither(ctx context.Context, done, other <-chan struct{}) bool {
	var silence <-chan time.Time
	if s != nil {
		silence = s.silence.C
	}
	for {
		select {
		case <-done:
			return true
		case <-other:
			return true
		case <-silence:
			s.Beat()
		case <-ctx.Done():
			return false
		}
	}
}
