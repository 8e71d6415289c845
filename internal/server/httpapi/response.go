package httpapi

import (
	"context"
	"net/http"
)

// A responseRecorder records a response for the request's log record.
type responseRecorder struct {
	http.ResponseWriter
	id     string
	status int
	bytes  int64
	caller *Caller
	cause  error
}

// WriteHeader implements [http.ResponseWriter].
func (a *responseRecorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *responseRecorder) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Unwrap lets [http.ResponseController] find the original writer.
func (a *responseRecorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

type recorderKey struct{}

func recorderOf(ctx context.Context) *responseRecorder {
	a, _ := ctx.Value(recorderKey{}).(*responseRecorder)
	return a
}

// setCause records an error for the request's log record.
func setCause(r *http.Request, err error) {
	if a := recorderOf(r.Context()); a != nil && err != nil {
		a.cause = err
	}
}
