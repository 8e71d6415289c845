package agentmodel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/server/sse"
)

// Timeouts bound the writing of a response.
type Timeouts struct {
	// Response bounds two waits after the end of the run: until the tenant's other responses leave
	// room for this one, and until the client has read a whole response.
	Response time.Duration
	Part     time.Duration // writing one part of a stream
}

// A Hold waits until the response may hold the given number of bytes in memory. Meanwhile it calls
// wait with a channel that is closed when the bytes are reserved or ctx is done. It fails with the
// cause of ctx if ctx is done first.
type Hold func(ctx context.Context, bytes int, wait func(ctx context.Context, done <-chan struct{}) bool) error

// Serve responds to a request with the events of its run, which must end with run_finished or
// run_paused. It calls hold when the run is over. If the run fails before anything is written,
// Serve returns the error and the caller writes the response, within timeouts.Response; an [*Error]
// may be shown to the client. If the run fails while a stream is being written, Serve sends the
// error as the stream's last event. Serve also returns errors of writes.
//
// A stream begins with the first text of the run, or after [sse.HeartbeatInterval] to keep the
// connection alive. If the run fails before the stream begins, the status of the response reports
// the failure.
func Serve(
	w http.ResponseWriter,
	r *http.Request,
	q *Request,
	events iter.Seq2[abi.Event, error],
	hold Hold,
	timeouts Timeouts,
) error {
	s := &sender{w: w, request: q, hold: hold, timeouts: timeouts, began: time.Now()}
	s.turn.final = q.format != nil
	send := s.whole
	if q.stream {
		send = s.stream
	}
	err := send(r.Context(), events)
	if err != nil && s.events == nil {
		s.extendDeadline()
	}
	return err
}

// A sender writes the response to one request.
type sender struct {
	w        http.ResponseWriter
	request  *Request
	hold     Hold
	timeouts Timeouts
	began    time.Time

	run    string
	turn   turn
	events *sse.Stream // nil until the stream begins
	writer wire.Writer
}

// errNoEvent reports a run without events.
var errNoEvent = errors.New("the run ended without an event")

// whole writes the response as one object when the run is over.
func (s *sender) whole(ctx context.Context, events iter.Seq2[abi.Event, error]) error {
	for e, err := range events {
		s.run = e.Run
		s.turn.take(e)
		if failed := failure(e, err); failed != nil {
			return failed
		}
	}
	if s.run == "" {
		return errNoEvent
	}
	if problem := s.mismatch(); problem != nil {
		return problem
	}
	b, err := s.answer()
	if err != nil {
		return err
	}
	s.turn = turn{} // only b is in memory while the client reads
	if full := s.holdRest(ctx, cap(b)); full != nil {
		return full
	}
	s.w.Header().Set("Content-Type", "application/json")
	s.extendDeadline()
	_, err = s.w.Write(b)
	return err
}

// answer returns the body of a response that is one object.
func (s *sender) answer() ([]byte, error) {
	m := abi.Message{Role: abi.RoleAssistant, ToolCalls: s.turn.calls(s.run)}
	if text := s.turn.text(); text != "" {
		m.Content = abi.Text(text)
	}
	if text := s.turn.refused; text != "" {
		m.Unknown = abi.Fields{{Name: wire.KindRefusal, Value: rawjson.Quote(text)}}
	}
	usage := s.turn.usage
	if usage == nil {
		usage = &abi.Usage{}
	}
	p := s.request.protocol
	body := p.NewAnswer(&abi.Response{Message: m, FinishReason: s.turn.finish, Usage: usage}, s.request.Model)
	v, err := rawjson.Parse(body)
	if err != nil {
		return nil, err
	}
	change := map[string][]byte{}
	for _, f := range s.extra() {
		change[f.Name] = f.Value
	}
	if p.idPrefix != "" {
		change["id"] = rawjson.Quote(p.idPrefix + s.request.responseID(s.run))
	}
	e := rawjson.Edits{Doc: body}
	e.Members(v, change)
	return append(e.Apply(), '\n'), nil
}

// extra returns the additional fields of a response: copies of fields of the request, and
// agent_runner, which the model APIs do not have. agent_runner contains the ID of the run, its
// thread, the interrupts that the run waits for, and the text that replaces the streamed text.
func (s *sender) extra() abi.Fields {
	o := map[string]any{"run": s.run}
	if s.request.Thread != "" {
		o["thread"] = s.request.Thread
	}
	if s.turn.waiting != nil {
		o["interrupts"] = s.turn.waiting
	}
	if text, ok := s.turn.corrected(); ok && s.events != nil { // streamed text cannot be withdrawn
		o["replaced"] = text
	}
	b, err := abijson.Marshal(o)
	if err != nil {
		return nil
	}
	return append(s.request.echo[:len(s.request.echo):len(s.request.echo)], abi.Field{Name: "agent_runner", Value: b})
}

// mismatch returns an error if the request asks for a format, and the final answer does not have it
// or a person must answer first. Otherwise it returns nil. A run whose answer was cut off, or that
// waits for the client's tools, has no final answer yet.
func (s *sender) mismatch() *Error {
	f := s.request.format
	if f == nil || s.turn.finish != abi.FinishStop {
		return nil
	}
	if s.turn.waiting != nil {
		return &Error{
			Status: http.StatusConflict,
			Message: fmt.Sprintf(
				"run %s waits for a person's answer, which no %s can say: see its interrupts",
				s.run,
				paramFormat,
			),
			Code: "run_paused",
		}
	}
	problem := f.check(s.turn.text())
	if problem == "" {
		return nil
	}
	return &Error{
		Status:  http.StatusUnprocessableEntity,
		Param:   paramFormat,
		Message: fmt.Sprintf("the answer of run %s does not have the requested format: %s", s.run, problem),
		Code:    "format_mismatch",
	}
}

// extendDeadline lets the client read a whole response from now on. The deadline that the server set
// when the request arrived may have passed during the run.
func (s *sender) extendDeadline() {
	_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(s.timeouts.Response))
}

// holdRest waits until the response can hold the rest of the answer. It returns an error if that
// takes longer than timeouts.Response, or ctx is done. The client should not repeat the request, since the
// run is over.
func (s *sender) holdRest(ctx context.Context, bytes int) *Error {
	ctx, cancel := context.WithTimeout(ctx, s.timeouts.Response)
	defer cancel()
	if s.hold(ctx, bytes, s.events.Wait) == nil {
		return nil
	}
	return &Error{
		Status: http.StatusServiceUnavailable,
		Message: fmt.Sprintf(
			"the responses to this tenant hold too much for this completion; run %s has it: GET /v1/runs/%[1]s",
			s.run,
		),
		Code:   "response_bytes",
		Header: http.Header{"X-Should-Retry": {"false"}}, // the SDKs of both vendors read it
	}
}

// encodings estimates how many times the text of a turn is in memory when its stream ends, for example
// in the turn, in the writer and as JSON.
const encodings = 4

// stream writes the response as a stream of the protocol's events, while the events of the run
// arrive.
func (s *sender) stream(ctx context.Context, events iter.Seq2[abi.Event, error]) error {
	next, stop := iter.Pull2(events)
	defer stop()
	for {
		e, err, ok := s.wait(ctx, next)
		if !ok {
			break
		}
		s.run = e.Run
		pieces := s.turn.take(e)
		if failed := failure(e, err); failed != nil {
			return s.fail(failed)
		}
		if s.turn.final && len(pieces) > 0 {
			continue // end sends the answer, if it has the requested format
		}
		if len(pieces) > 0 {
			s.write(pieces)
		}
		if s.events != nil && s.events.Err != nil {
			return s.events.Err
		}
	}
	if s.run == "" {
		return errNoEvent
	}
	return s.end(ctx)
}

// fail handles the failure of a run. If the stream has begun and err is an [*Error], fail sends err
// to the client, and returns an error only if that fails. Otherwise it returns err.
func (s *sender) fail(err error) error {
	var problem *Error
	if s.events == nil || !errors.As(err, &problem) {
		return err
	}
	s.events.Send(s.writer.Error(nil, problem.inStream()))
	return s.events.Err
}

// end sends the rest of a stream after the run's last event: tool calls, usage and the end.
func (s *sender) end(ctx context.Context) error {
	if problem := s.mismatch(); problem != nil {
		return s.fail(problem)
	}
	if text := s.turn.text(); s.turn.final && text != "" {
		s.write([]piece{{abi.ChunkText, text}})
	}
	s.begin()
	if full := s.holdRest(ctx, encodings*s.turn.bytes()); full != nil {
		return s.fail(full)
	}
	var b []byte
	if s.turn.refused != "" {
		b = s.writer.Text(b, wire.KindRefusal, s.turn.refused)
	}
	for _, c := range s.turn.calls(s.run) {
		b = s.writer.Call(b, &c)
	}
	usage := s.turn.usage
	switch {
	case !s.request.usage:
		usage = nil
	case usage == nil:
		usage = &abi.Usage{}
	}
	s.writer.Extra(s.extra())
	s.events.Send(s.writer.End(b, s.turn.finish, usage))
	return s.events.Err
}

// wait calls next and returns its results. Meanwhile it keeps the connection alive. ok is false
// after the last event. The events end when ctx is done.
func (s *sender) wait(ctx context.Context, next func() (abi.Event, error, bool)) (e abi.Event, err error, ok bool) {
	came := make(chan struct{})
	go func() {
		defer close(came)
		e, err, ok = next()
	}()
	if s.events == nil && s.run != "" {
		silence := time.NewTimer(time.Until(s.began.Add(sse.HeartbeatInterval)))
		defer silence.Stop()
		select {
		case <-came:
			return e, err, ok
		case <-silence.C:
			s.begin()
		case <-ctx.Done():
		}
	}
	s.events.Wait(ctx, came)
	<-came
	return e, err, ok
}

// begin starts the stream if it has not begun.
func (s *sender) begin() {
	if s.events != nil {
		return
	}
	s.events = sse.New(s.w, s.timeouts.Part)
	s.writer = s.request.protocol.NewWriter(s.request.Model)
	if s.request.protocol.idPrefix != "" {
		s.writer.SetID(s.request.responseID(s.run))
	}
	s.events.Send(s.writer.Begin(nil))
}

// write sends pieces of text, and first starts the stream if it has not begun.
func (s *sender) write(pieces []piece) {
	s.begin()
	var b []byte
	for _, p := range pieces {
		b = s.writer.Text(b, p.kind, p.text)
	}
	s.events.Send(b)
}
