package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/server/admission"
)

// headerBytes is how large the header of a request may be.
const headerBytes = 32 << 10

// times are how long a request may take to arrive and its answer to leave.
type times struct {
	header time.Duration // the request's header
	body   time.Duration // a body that is held in memory
	upload time.Duration // a module
	answer time.Duration // the answer, from the request's beginning on
	remove time.Duration // a tenant's runs have to be deleted, before that
	part   time.Duration // each part of a stream of events
	idle   time.Duration // between two requests
	hand   time.Duration // runs that are cut off have for their end here, so that another server goes on with them at once
}

func defaultTimes() times {
	return times{header: 10 * time.Second, body: bodyTime, upload: 5 * time.Minute, answer: 2 * time.Minute, remove: 90 * time.Second, part: 30 * time.Second, idle: 2 * time.Minute, hand: 3 * time.Second}
}

// An answer is what became of a request, for its log record.
type answer struct {
	http.ResponseWriter
	id     string
	status int
	bytes  int64
	caller *Caller
	cause  error
}

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

type answerKey struct{}

func answerOf(ctx context.Context) *answer {
	a, _ := ctx.Value(answerKey{}).(*answer)
	return a
}

// RequestID is the id of the request that ctx is of; empty if it is of none.
func RequestID(ctx context.Context) string {
	if a := answerOf(ctx); a != nil {
		return a.id
	}
	return ""
}

func instance(r *http.Request) string { return "urn:agent-runner:request:" + RequestID(r.Context()) }

// note keeps an error for the request's log record.
func note(r *http.Request, err error) {
	if a := answerOf(r.Context()); a != nil && err != nil {
		a.cause = err
	}
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := s.now()
	a := &answer{ResponseWriter: w, id: r.Header.Get("X-Request-Id")}
	if !requestID.MatchString(a.id) {
		a.id = "req_" + rand.Text()
	}
	r = r.WithContext(context.WithValue(r.Context(), answerKey{}, a))
	h := a.Header()
	h.Set("X-Request-Id", a.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(began.Add(s.times.answer))
	if r.Body != nil && r.Body != http.NoBody {
		_ = control.SetReadDeadline(began.Add(s.times.body))
		r.Body = &body{r.Body, control}
	}
	defer s.finish(a, r, began)
	s.dispatch(a, r)
}

// dispatch calls the route, or says that there is none.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	err := checkPath(r)
	if err == nil {
		err = checkEncoding(r)
	}
	if err != nil {
		s.reject(w, r, err)
		return
	}
	if _, pattern := s.mux.Handler(r); pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	missing := &nothing{header: http.Header{}}
	s.mux.ServeHTTP(missing, r)
	if allow := missing.header.Get("Allow"); missing.status == http.StatusMethodNotAllowed {
		p := problem(codeMethod, "%s %s: want %s", r.Method, r.URL.Path, allow)
		p.header = http.Header{"Allow": {allow}}
		s.reject(w, r, p)
		return
	}
	s.reject(w, r, problem(codeNotFound, "no endpoint for %s %s; see /openapi.json", r.Method, r.URL.Path))
}

// reject answers a request with a problem, later than at once if its tenant is rejected too often.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, err error) {
	tenant := admission.NoKey
	if a := answerOf(r.Context()); a != nil && a.caller != nil {
		tenant = a.caller.Key.Tenant
	}
	s.admission.Rejections.Wait(r.Context(), tenant)
	writeProblem(w, r, err)
}

// parse calls fn, which parses the body of a request that starts or resumes a run.
func (s *Server) parse(ctx context.Context, c *Caller, bytes int, fn func() error) error {
	c.body = bytes
	return s.admission.Parse(ctx, c.Key.Tenant, bytes, fn)
}

// checkEncoding refuses bodies that are to be unpacked: nothing grows here.
func checkEncoding(r *http.Request) error {
	for _, coding := range r.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return problem(codeMediaType, "the body has the content encoding %.40q; send it unencoded", coding)
		}
	}
	return nil
}

// nothing takes what the mux says where it has no route.
type nothing struct {
	header http.Header
	status int
}

func (n *nothing) Header() http.Header         { return n.header }
func (n *nothing) WriteHeader(status int)      { n.status = status }
func (n *nothing) Write(b []byte) (int, error) { return len(b), nil }

// finish logs the request, and answers one whose handler panicked.
func (s *Server) finish(a *answer, r *http.Request, began time.Time) {
	level := slog.LevelInfo
	if p := recover(); p != nil {
		level = slog.LevelError
		a.cause = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		if a.status == 0 {
			writeProblem(a, r, a.cause)
		} else {
			// What was written is not whole, and the caller should notice.
			defer panic(http.ErrAbortHandler)
		}
	}
	s.metrics.note(r.Pattern, a.status, s.now().Sub(began))
	if a.status >= 500 {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("request", a.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.Int("status", a.status), slog.Int64("bytes", a.bytes), slog.Duration("took", s.now().Sub(began))}
	if a.caller != nil {
		attrs = append(attrs, slog.String("tenant", a.caller.Key.Tenant), slog.String("key", a.caller.Key.ID))
	}
	if a.cause != nil {
		attrs = append(attrs, slog.String("error", a.cause.Error()))
	}
	s.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// A body takes its deadline back once it is read: a stream that is answered
// has none, but for the one of its writes.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
