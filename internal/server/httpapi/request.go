package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
)

// RequestID returns the id of ctx's request, or "" outside of requests.
func RequestID(ctx context.Context) string {
	if a := recorderOf(ctx); a != nil {
		return a.id
	}
	return ""
}

func instance(r *http.Request) string { return "urn:agent-runner:request:" + RequestID(r.Context()) }

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ServeHTTP implements [http.Handler].
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := rt.now()
	a := &responseRecorder{ResponseWriter: w, id: r.Header.Get("X-Request-Id")}
	if !requestID.MatchString(a.id) {
		a.id = "req_" + rand.Text()
	}
	r = r.WithContext(context.WithValue(r.Context(), recorderKey{}, a))
	h := a.Header()
	h.Set("X-Request-Id", a.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Origin")
	h.Set("Cache-Control", "no-store") // caches must not give the answer to another caller; the console sets its own
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(began.Add(rt.timeouts.Response))
	if r.Body != nil && r.Body != http.NoBody {
		_ = control.SetReadDeadline(began.Add(rt.timeouts.Body))
		r.Body = &requestBody{r.Body, control}
	}
	defer rt.finish(a, r, began)
	rt.dispatch(a, r)
}

// dispatch calls the handler of a request. It rejects a request with an invalid URL, a compressed
// body or no handler.
func (rt *Router) dispatch(w http.ResponseWriter, r *http.Request) {
	err := checkPath(r)
	if err == nil {
		err = cmp.Or(checkEncoding(r), checkUpgrade(r))
	}
	if err != nil {
		rt.reject(w, r, err)
		return
	}
	if isPreflight(r) {
		rt.preflight(w, r)
		return
	}
	if _, pattern := rt.mux.Handler(r); pattern != "" {
		rt.mux.ServeHTTP(w, r)
		return
	}
	missing := &discardWriter{header: http.Header{}}
	rt.mux.ServeHTTP(missing, r)
	if allow := missing.header.Get("Allow"); missing.status == http.StatusMethodNotAllowed {
		rt.reject(w, r,
			NewProblem(api.CodeMethod, "%s %s: want %s", r.Method, r.URL.Path, allow).WithHeader(http.Header{"Allow": {allow}}))
		return
	}
	rt.reject(w, r, NewProblem(api.CodeNotFound, "no endpoint for %s %s; see /openapi.json", r.Method, r.URL.Path))
}

// A discardWriter records the status and headers with which [http.ServeMux] rejects a request.
type discardWriter struct {
	header http.Header
	status int
}

func (n *discardWriter) Header() http.Header         { return n.header }
func (n *discardWriter) WriteHeader(status int)      { n.status = status }
func (n *discardWriter) Write(b []byte) (int, error) { return len(b), nil }

// finish logs a request and records its metrics. If the handler panicked, finish responds with a
// problem, or aborts the connection if the response has begun or the handler panicked with
// [http.ErrAbortHandler].
func (rt *Router) finish(a *responseRecorder, r *http.Request, began time.Time) {
	level := slog.LevelInfo
	if p := recover(); p != nil {
		aborted := p == http.ErrAbortHandler //nolint:errorlint // net/http compares it as well
		if !aborted {
			level = slog.LevelError
			a.cause = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if a.status == 0 && !aborted {
			writeProblem(a, r, a.cause)
		} else {
			// The response is incomplete, and the client must notice.
			defer panic(http.ErrAbortHandler)
		}
	}
	rt.observe(r.Pattern, a.status, rt.now().Sub(began))
	if a.status >= 500 {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("request", a.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.Int("status", a.status), slog.Int64("bytes", a.bytes), slog.Duration("took", rt.now().Sub(began))}
	if a.caller != nil {
		attrs = append(attrs, slog.String("tenant", a.caller.Key.Tenant), slog.String(a.caller.Actor.Kind, a.caller.Actor.ID))
	}
	if a.cause != nil {
		attrs = append(attrs, slog.String("error", a.cause.Error()))
	}
	rt.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// A requestBody is the body of a request. Once it has been read, it removes the read deadline,
// because a stream in the response has only write deadlines.
type requestBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements [io.Reader].
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
