package chat

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/modelfailure"
	"github.com/agent-runner/agent-runner/internal/server/sse"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// Timeouts bound the writing of a response.
type Timeouts struct {
	// Response bounds the time for which a completion waits until the tenant's other responses
	// leave room for it, and then the time to write a whole completion. It starts when the run is
	// over, since a run may take longer.
	Response time.Duration
	Part     time.Duration // writing one part of a stream
}

// A Hold is a function that waits until the response may hold a number of bytes in memory.
// Meanwhile it calls wait with a channel that is closed when the bytes are reserved or ctx is done.
// It fails with the cause of ctx if ctx is done first.
type Hold func(ctx context.Context, bytes int, wait func(ctx context.Context, done <-chan struct{}) bool) error

// Serve responds to a request with the events of its run, which must end with run_finished or
// run_paused. It calls hold when the run is over. If the run fails before anything is written,
// Serve returns the error and the caller writes the response, within timeouts.Response; an [*Error]
// may be shown to the client. If the run fails while a stream is being written, Serve sends the
// error as the stream's last object. Serve also returns errors of writes.
func Serve(
	w http.ResponseWriter,
	r *http.Request,
	q *Request,
	events iter.Seq2[abi.Event, error],
	hold Hold,
	timeouts Timeouts,
) error {
	s := &sender{w: w, request: q, made: time.Now().Unix(), hold: hold, timeouts: timeouts}
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

// A sender writes a completion.
type sender struct {
	w        http.ResponseWriter
	request  *Request
	made     int64
	hold     Hold
	timeouts Timeouts

	run    string
	turn   turn
	events *sse.Stream // nil until the stream begins
}

// whole responds with one object when the run is over.
func (s *sender) whole(ctx context.Context, events iter.Seq2[abi.Event, error]) error {
	for e, err := range events {
		s.run = e.Run
		s.turn.take(e)
		if failed := s.failure(e, err); failed != nil {
			return failed
		}
	}
	if s.run == "" {
		return errors.New("the run ended without an event")
	}
	content := s.turn.text()
	message := map[string]any{"role": abi.RoleAssistant, "content": content, "refusal": s.turn.refusal()}
	if calls := s.turn.calls(s.run, false); calls != nil {
		message["tool_calls"] = calls
		if content == "" {
			message["content"] = nil
		}
	}
	o := s.object("chat.completion",
		map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": s.turn.finish})
	o["usage"] = usageOf(s.turn.usage)
	o["agent_runner"] = s.turn.about(s.run)
	b, err := abijson.Marshal(o)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	s.turn = turn{} // only b is in memory while the client reads
	if full := s.holdRest(ctx, cap(b)); full != nil {
		return full
	}
	s.w.Header().Set("Content-Type", "application/json")
	s.extendDeadline()
	_, err = s.w.Write(b)
	return err
}

// extendDeadline lets the client read a whole response from now on. The deadline that the server set
// when the request arrived may have passed during the run.
func (s *sender) extendDeadline() {
	_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(s.timeouts.Response))
}

// holdRest waits until the response can hold the rest of the completion. It returns an error if that
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
		Header: http.Header{"X-Should-Retry": {"false"}}, // OpenAI's clients read it
	}
}

// failure returns the error of a run that failed, or nil.
func (s *sender) failure(e abi.Event, err error) error {
	var journal *journal.Error
	var ended *agent.Error
	how, byModel := modelfailure.EndedBy(&e)
	switch {
	case errors.As(err, &journal):
		return &Error{
			Status:  http.StatusServiceUnavailable,
			Message: "the run was interrupted on this server; ask again later",
			Code:    "run_interrupted",
		}
	case e.Type != abi.EventRunFinished || e.Error == nil && !errors.As(err, &ended), e.FinishReason == abi.RunStopped:
		return nil
	case e.FinishReason == abi.RunTimeout:
		return &Error{Status: http.StatusGatewayTimeout, Message: text(e), Code: e.FinishReason}
	case e.FinishReason == abi.RunCanceled:
		return &Error{Status: http.StatusConflict, Message: "the run was canceled" + because(e.Error), Code: e.FinishReason}
	case byModel:
		return modelFailed(e, how)
	case e.Error != nil && e.Error.Code == abi.CodeUnavailable:
		return &Error{
			Status:  http.StatusServiceUnavailable,
			Message: text(e),
			Code:    string(e.Error.Code),
			Header:  retryAfter(e.Error),
		}
	case e.FinishReason == abi.RunMaxSteps || e.FinishReason == abi.RunLimit:
		return &Error{Status: http.StatusUnprocessableEntity, Message: text(e), Code: e.FinishReason}
	default:
		return &Error{Status: http.StatusInternalServerError, Message: text(e), Code: "run_failed"}
	}
}

// modelFailed returns the error of a failed model call. It shows neither the model's address nor
// the text of its endpoint to the agent's users; the tenant can read the run's events.
func modelFailed(e abi.Event, how string) *Error {
	return &Error{
		Status:  http.StatusBadGateway,
		Code:    string(e.Error.Code),
		Header:  retryAfter(e.Error),
		Message: fmt.Sprintf("%s; run %s has its events", how, e.Run),
	}
}

// retryAfter returns a Retry-After header if the error has a delay.
func retryAfter(err *abi.Error) http.Header {
	if err.RetryAfterMS <= 0 {
		return nil
	}
	return http.Header{"Retry-After": {strconv.FormatInt((err.RetryAfterMS+999)/1000, 10)}}
}

func because(err *abi.Error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Message
}

func text(e abi.Event) string {
	if e.Error != nil {
		return e.Error.Message
	}
	return "the run ended with " + e.FinishReason
}

// object returns a completion object with the given choices.
func (s *sender) object(kind string, choices ...any) map[string]any {
	if choices == nil {
		choices = []any{}
	}
	return map[string]any{
		"id":      "chatcmpl-" + s.run,
		"object":  kind,
		"created": s.made,
		"model":   s.request.Model,
		"choices": choices,
	}
}

// encodings is the number of copies of a turn's text that are in memory when its stream ends: one
// as text and one as JSON.
const encodings = 2

// stream responds with a chunk for each piece of text as it arrives.
func (s *sender) stream(ctx context.Context, events iter.Seq2[abi.Event, error]) error {
	next, stop := iter.Pull2(events)
	defer stop()
	for {
		e, err, ok := s.wait(ctx, next)
		if !ok {
			break
		}
		s.run = e.Run
		said := s.turn.take(e)
		if failed := s.failure(e, err); failed != nil {
			var problem *Error
			if s.events == nil || !errors.As(failed, &problem) {
				return failed
			}
			s.send(problem.object())
			s.done()
			return s.events.Err
		}
		if e.Type == "" {
			continue
		}
		s.begin()
		for _, delta := range said {
			s.delta(delta, nil)
		}
		if s.events.Err != nil {
			return s.events.Err
		}
	}
	if s.run == "" {
		return errors.New("the run ended without an event")
	}
	s.begin()
	if full := s.holdRest(ctx, encodings*s.turn.bytes()); full != nil {
		s.send(full.object())
		s.done()
		return s.events.Err
	}
	if text, ok := s.turn.corrected(); ok { // streamed text cannot be withdrawn
		o := s.object("chat.completion.chunk", map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": nil})
		o["agent_runner"] = map[string]any{"run": s.run, "replaced": text}
		s.send(o)
	}
	if calls := s.turn.calls(s.run, true); calls != nil {
		s.delta(map[string]any{"tool_calls": calls}, nil)
	}
	if refusal := s.turn.refusal(); refusal != nil {
		s.delta(map[string]any{"refusal": refusal}, nil)
	}
	s.delta(map[string]any{}, &s.turn.finish)
	if s.request.usage {
		o := s.object("chat.completion.chunk")
		o["usage"], o["agent_runner"] = usageOf(s.turn.usage), s.turn.about(s.run)
		s.send(o)
	}
	s.done()
	return s.events.Err
}

// wait returns the next event, and keeps the connection alive until then. ok is false after the
// last event. The events end when ctx is done.
func (s *sender) wait(ctx context.Context, next func() (abi.Event, error, bool)) (e abi.Event, err error, ok bool) {
	came := make(chan struct{})
	go func() {
		defer close(came)
		e, err, ok = next()
	}()
	s.events.Wait(ctx, came)
	<-came
	return e, err, ok
}

// begin starts the stream with an empty message of the assistant, unless the stream has begun
// already.
func (s *sender) begin() {
	if s.events != nil {
		return
	}
	s.events = sse.New(s.w, s.timeouts.Part)
	s.delta(map[string]any{"role": abi.RoleAssistant, "content": ""}, nil)
}

func (s *sender) delta(delta map[string]any, finish *string) {
	s.send(s.object("chat.completion.chunk", map[string]any{"index": 0, "delta": delta, "finish_reason": finish}))
}

func (s *sender) send(v any) {
	b, err := abijson.Marshal(v)
	if err != nil {
		return
	}
	s.events.Send([]byte("data: "), b, []byte("\n\n"))
}

func (s *sender) done() { s.events.Send([]byte("data: [DONE]\n\n")) }

func usageOf(u *abi.Usage) any {
	if u == nil {
		u = &abi.Usage{}
	}
	return u
}

// waitsForClient reports whether a paused run waits for at least one tool of the client.
func waitsForClient(interrupts []abi.Pending) bool {
	for _, p := range interrupts {
		if toolcall.IsClient(p) {
			return true
		}
	}
	return false
}
