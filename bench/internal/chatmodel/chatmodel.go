// Package chatmodel serves models with OpenAI's chat API, which answer as fast as a benchmark needs. It
// streams every answer.
package chatmodel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// A Server serves models on the loopback interface.
type Server struct {
	URL string // base URL for clients

	server *http.Server
}

// Start starts a server on a free port, which calls answer for each request. The caller must close the
// server.
func Start(answer func(*Answer)) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client disconnected
		}
		w.Header().Set("Content-Type", "text/event-stream")
		answer(&Answer{Request: body, ctx: r.Context(), w: w})
	})
	s := &Server{
		URL:    "http://" + l.Addr().String() + "/v1",
		server: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = s.server.Serve(l) }() // always http.ErrServerClosed
	return s, nil
}

// Close stops the server, and cancels the requests in flight.
func (s *Server) Close() { _ = s.server.Close() }

// An Answer is the answer to one request. Its methods ignore that the client has disconnected, except
// for Pause.
type Answer struct {
	Request []byte // body

	ctx context.Context
	w   http.ResponseWriter
}

// Asks reports whether the request is for the model with the given name.
func (a *Answer) Asks(model string) bool {
	return bytes.Contains(a.Request, fmt.Appendf(nil, `"model":%q`, model))
}

// Pause sends what was written, and waits. It reports false if the client disconnected.
func (a *Answer) Pause(d time.Duration) bool {
	_ = http.NewResponseController(a.w).Flush()
	select {
	case <-time.After(d):
		return true
	case <-a.ctx.Done():
		return false
	}
}

// Text writes a chunk of text.
func (a *Answer) Text(text string) {
	a.chunk(fmt.Sprintf(`{"role":"assistant","content":%q}`, text), "null")
}

// Call writes a call of a tool. arguments are a JSON object.
func (a *Answer) Call(id, tool, arguments string) {
	const call = `{"role":"assistant","tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]}`
	a.chunk(fmt.Sprintf(call, id, tool, arguments), "null")
}

// Finish ends the answer with a finish reason, such as stop, and with a usage of 15 tokens.
func (a *Answer) Finish(reason string) {
	a.chunk("{}", `"`+reason+`"`)
	const end = `data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}` +
		"\n\ndata: [DONE]\n\n"
	_, _ = io.WriteString(a.w, end)
}

// chunk writes an event with a delta and a finish reason, both JSON.
func (a *Answer) chunk(delta, reason string) {
	const event = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}` + "\n\n"
	fmt.Fprintf(a.w, event, delta, reason)
}
