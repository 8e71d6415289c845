package httpapi

import (
	"context"
	"net/http"
	"time"
)

// A stream is server-sent events.
type EventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // that a client may take to read one
	Err     error
}

// newStream begins one.
func NewEventStream(w http.ResponseWriter, part time.Duration) *EventStream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies are to hand events on as they come
	s := &EventStream{w: w, control: http.NewResponseController(w), timeout: part}
	w.WriteHeader(http.StatusOK)
	s.Send([]byte("retry: 1000\n\n"))
	return s
}

// write writes at once; a client that does not read in time is left.
func (s *EventStream) Send(b []byte) {
	if s.Err != nil {
		return
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	if _, s.Err = s.w.Write(b); s.Err == nil {
		s.Err = s.control.Flush()
	}
}

// wait waits for a change, and lets the connection live until there is one. It is
// false where the client is gone.
func (s *EventStream) Wait(ctx context.Context, changed <-chan struct{}) bool {
	pulse := time.NewTicker(HeartbeatInterval)
	defer pulse.Stop()
	for {
		select {
		case <-changed:
			return true
		case <-pulse.C:
			s.Send([]byte(": still here\n\n"))
		case <-ctx.Done():
			return false
		}
	}
}

// HeartbeatInterval is after how long a stream without events sends a comment.
const HeartbeatInterval = 15 * time.Second
