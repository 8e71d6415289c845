// Package openaitest provides a local OpenAI-compatible server for tests of clients. It answers
// with a given model, usually a scripted one. It is the counterpart of package openai.
package openaitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// maxRequest is the maximum size of a request's body, in bytes.
const maxRequest = 64 << 20

// ErrCut is an error that the server's model returns to make the server close the connection before the
// response is complete.
var ErrCut = errors.New("the connection is cut")

// A RawError is an error that the server's model returns before the first chunk, to make the server
// send the response in it unchanged.
type RawError struct {
	Status int // 200 if 0
	Header map[string]string
	Body   string
}

// Error returns a message with the status.
func (r *RawError) Error() string { return fmt.Sprintf("a raw answer of status %d", r.Status) }

// A Request is a client's request.
type Request struct {
	Path   string // with the query
	Header http.Header
	Body   []byte
}

// A Server serves POST BASE/chat/completions. If its model fails before the first chunk, a
// *model.Error becomes a response with its status (default 500), an error object and, if it has a
// RetryAfter, the header Retry-After-Ms. After the first chunk, it becomes an error event in the
// stream. Errors other than *model.Error and *RawError abort the connection.
type Server struct {
	URL string // the base URL for clients, http://127.0.0.1:PORT/v1

	model  model.Model
	server *http.Server
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	requests []Request
}

// New starts a server that answers with m on a free port of the loopback interface. The caller must
// close the server.
func New(m model.Model) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("openaitest: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{URL: "http://" + l.Addr().String() + "/v1", model: m, cancel: cancel, done: make(chan struct{})}
	s.server = &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(l) // always http.ErrServerClosed
	}()
	return s, nil
}

// Close stops the server and cancels the requests in flight.
func (s *Server) Close() {
	s.cancel()
	_ = s.server.Close()
	<-s.done
}

// Requests returns the requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ServeHTTP answers a request with the model.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		fail(w, &model.Error{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.URL.RequestURI(), r.Header.Clone(), body})
	s.mu.Unlock()
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		fail(w, &model.Error{Status: http.StatusNotFound, Message: "only POST /v1/chat/completions is served"})
		return
	}
	req, err := parse(body)
	if err != nil {
		fail(w, &model.Error{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	if req.stream {
		s.stream(w, r, req)
		return
	}
	res, err := s.model.Generate(r.Context(), &req.Request, nil)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, completion{
		ID: "chatcmpl-1", Object: "chat.completion", Model: req.Model, Usage: res.Usage,
		Choices: []choice{{Message: &res.Message, FinishReason: &res.FinishReason}},
	})
}

// fail writes a *RawError or a *model.Error as the complete response. For other errors, it aborts the
// connection.
func fail(w http.ResponseWriter, err error) {
	var raw *RawError
	var e *model.Error
	switch {
	case errors.As(err, &raw):
		for name, value := range raw.Header {
			w.Header().Set(name, value)
		}
		if raw.Status != 0 {
			w.WriteHeader(raw.Status)
		}
		_, _ = io.WriteString(w, raw.Body)
		return
	case !errors.As(err, &e):
		panic(http.ErrAbortHandler) // ErrCut, or the client disconnected
	}
	status := e.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
	}
	w.WriteHeader(status)
	write(w, problem(e))
}

// problem returns the body of an error response.
func problem(e *model.Error) any {
	return map[string]any{"error": map[string]any{"message": e.Message, "type": string(e.Code), "code": e.Status}}
}

// write encodes v as JSON. If that fails, it aborts the response.
func write(w io.Writer, v any) {
	b, err := abijson.Marshal(v)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(b)
}

// A request is a decoded request to the endpoint. usage means that a stream ends with the usage.
type request struct {
	model.Request
	stream bool
	usage  bool
}

// parse decodes the body of a request to the endpoint.
func parse(body []byte) (*request, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	var tools []struct{ Function abi.Tool }
	var options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	req := &request{}
	for name, v := range map[string]any{
		"model": &req.Model, "messages": &req.Messages, "tools": &tools, "stream": &req.stream, "stream_options": &options,
	} {
		if raw, ok := fields[name]; ok {
			if err := json.Unmarshal(raw, v); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			delete(fields, name)
		}
	}
	for _, t := range tools {
		req.Tools = append(req.Tools, t.Function)
	}
	req.Params, req.usage = fields, options.IncludeUsage
	return req, nil
}
