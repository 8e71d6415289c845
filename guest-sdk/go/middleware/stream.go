package middleware

import (
	"errors"
	"iter"

	"github.com/agent-runner/agent-runner/abi"
)

// A Stream is an answer that a wrapper reads as it comes, from
// [NextModel.Stream] or [NextTool.Stream]. What is wrapped begins with the
// loop over its chunks, or with End.
//
//	stream := next.Stream(req)
//	for chunk := range stream.Chunks() {
//		// look at it, and hand it on, or something in its place, with ctx.Send
//	}
//	return nil, stream.End()
//
// Leaving the loop before its end closes the stream: what is wrapped is
// canceled. A stream is read once.
type Stream[R any] struct {
	run   func(*listener) (*R, error)
	begun bool
	reply *R
	err   error
}

// errLeft is what goes inward when a loop over a stream is left.
var errLeft = errors.New("the wrapper outside left the stream")

// Chunks are the pieces of the answer, one by one.
func (s *Stream[R]) Chunks() iter.Seq[abi.Chunk] {
	return func(yield func(abi.Chunk) bool) {
		for batch := range s.Batches() {
			for _, c := range batch {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// Batches are the pieces of the answer, those together that wait together:
// cheaper than one by one where a wrapper sends as it reads.
func (s *Stream[R]) Batches() iter.Seq[[]abi.Chunk] {
	return func(yield func([]abi.Chunk) bool) {
		if s.begun {
			return
		}
		s.begun = true
		left := false
		s.reply, s.err = s.run(&listener{read: readStream, hear: func(chunks []abi.Chunk) error {
			if left = left || !yield(chunks); left {
				return errLeft
			}
			return nil
		}})
		if left {
			s.reply, s.err = nil, nil
		}
	}
}

// End is the error with which the answer ended, an *abi.Error; nil if it ended
// well, or the loop was left. What was not read before is read now.
func (s *Stream[R]) End() error {
	for range s.Batches() { //nolint:revive // to its end
	}
	return s.err
}

// Reply is the whole answer, after End; nil where it failed, or the loop was
// left. A wrapper that returns it as it is says no more than one that returns
// nil: if it sent something, that is its answer.
func (s *Stream[R]) Reply() *R { return s.reply }

// Stream goes on with a model call as next does, and reads the answer as it
// comes. Where the call is not streamed it comes in one piece.
func (next NextModel) Stream(req *Request) *Stream[abi.Response] {
	return &Stream[abi.Response]{run: func(l *listener) (*abi.Response, error) {
		q := Request{aside: aside{asIs: true}}
		if req != nil {
			q = *req
		}
		q.aside.listener = l
		return next(&q)
	}}
}

// Stream goes on with a tool call as next does, and reads the result as it
// comes: most tools say theirs in one piece.
func (next NextTool) Stream(call *Call) *Stream[abi.Result] {
	return &Stream[abi.Result]{run: func(l *listener) (*abi.Result, error) {
		q := Call{aside: aside{asIs: true}}
		if call != nil {
			q = *call
		}
		q.aside.listener = l
		return next(&q)
	}}
}

// Send hands chunks outward, in WrapModel, WrapToolCall and CallTool, and
// returns once there is room for more: a slow reader slows the module, without
// using up its time. What was sent is the answer where the hook returns nil and
// no error, together with what next let pass. An answer that it returns counts
// in its place, and the caller is told that what was streamed is replaced.
//
// Errors are *abi.Error: of code limit after too many chunks, or what an
// OnChunk hook outside has against them.
func (c *Context) Send(chunks ...abi.Chunk) error {
	f, _ := c.frame.(*frame)
	var err error
	if f != nil && f.out != nil {
		err = f.out.hear(chunks)
	} else {
		err = c.sendToHost(chunks)
	}
	if err == nil && f != nil {
		f.tail.Add(chunks...)
		f.sent = f.sent || len(chunks) > 0
	}
	return err
}

// SendText is Send of a piece of text: of the model's answer, or of the tool's
// result.
func (c *Context) SendText(text string) error {
	return c.Send(abi.Chunk{Kind: c.textKind, Text: text})
}

func (c *Context) sendToHost(chunks []abi.Chunk) error {
	b, err := abi.Write(nil, &abi.Sent{Chunks: chunks})
	if err != nil {
		return abi.Wrap("encode the chunks to send", err)
	}
	if err := c.host.Send(b); err != nil {
		return err
	}
	c.sent = c.sent || len(chunks) > 0
	return nil
}

// readStream opens the host's stream and reads it to its end.
func readStream(h Host, patch []byte, hear func([]abi.Chunk) error) (*abi.StreamEnd, error) {
	if err := h.NextStream(patch); err != nil {
		return nil, err
	}
	for {
		b, err := h.Recv()
		if err != nil {
			return nil, err
		}
		var got abi.Received
		if len(b) > 0 {
			if err := abi.Read(b, &got); err != nil {
				return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to recv: " + err.Error()}
			}
		}
		switch {
		case got.End != nil:
			return got.End, nil
		case len(got.Chunks) == 0:
			return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's stream ended without a reply"}
		}
		if err := hear(got.Chunks); err != nil {
			return nil, err
		}
	}
}
