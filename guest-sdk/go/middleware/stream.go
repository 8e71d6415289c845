package middleware

import (
	"errors"
	"iter"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/clone"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Stream is an answer that a wrapper reads while it arrives, returned by
// [NextModel.Stream] or [NextTool.Stream]. The wrapped call starts when the loop over the
// chunks starts, or with End.
//
//	stream := next.Stream(req)
//	for chunk := range stream.Chunks() {
//		// inspect the chunk, and pass it or a replacement on with ctx.Send
//	}
//	return nil, stream.End()
//
// Leaving the loop early closes the stream and cancels the wrapped call. A stream can be
// read once.
type Stream[R any] struct {
	run   func(*listener) (*R, error)
	begun bool
	reply *R
	err   error
}

// errLeft is the error of passing chunks to a wrapper that has left the loop over its stream.
var errLeft = errors.New("the wrapper outside left the stream")

// Chunks returns an iterator over the chunks of the answer.
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

// Batches returns an iterator over batches of available chunks. It is cheaper than Chunks for a
// wrapper that sends while it reads.
func (s *Stream[R]) Batches() iter.Seq[[]abi.Chunk] {
	return func(yield func([]abi.Chunk) bool) {
		if s.begun {
			return
		}
		s.begun = true
		left := false
		s.reply, s.err = s.run(&listener{read: readStream, receive: func(chunks []abi.Chunk) error {
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

// End reads the rest of the answer and returns its error, an *abi.Error. It returns nil
// if the answer ended normally or the loop was left.
func (s *Stream[R]) End() error {
	for range s.Batches() { // to its end
	}
	return s.err
}

// Reply returns the whole answer, after End. It returns nil if the answer failed or the
// loop was left. A wrapper that returns it unchanged has the same effect as one that
// returns nil: if the wrapper sent anything, that is its answer.
func (s *Stream[R]) Reply() *R { return s.reply }

// Stream continues a model call as next does, and returns the answer as a stream. If the
// call is not streamed, the answer arrives at once.
func (next NextModel) Stream(req *Request) *Stream[abi.Response] {
	return &Stream[abi.Response]{run: func(l *listener) (*abi.Response, error) {
		q := Request{streamArgs: streamArgs{asIs: true}}
		if req != nil {
			q = *req
		}
		q.streamArgs.listener = l
		return next(&q)
	}}
}

// Stream continues a tool call as next does, and returns the result as a stream. Most
// tools send their result at once.
func (next NextTool) Stream(call *Call) *Stream[abi.Result] {
	return &Stream[abi.Result]{run: func(l *listener) (*abi.Result, error) {
		q := Call{streamArgs: streamArgs{asIs: true}}
		if call != nil {
			q = *call
		}
		q.streamArgs.listener = l
		return next(&q)
	}}
}

// Send sends chunks to the caller, in WrapModel, WrapToolCall and CallTool. It blocks
// until there is room for more: a slow reader slows the module down without using up the
// hook's time limit. If the hook returns nil and no error, its answer consists of the
// chunks that it sent and those that next passed on. If the hook returns an answer, this
// answer replaces the chunks, and the caller is notified of the replacement.
//
// Send fails with [abi.CodeLimit] after too many chunks, with [abi.CodeInvalid] for an invalid
// chunk, with the error of an outer OnChunk hook, and if an outer wrapper of this module has left
// its loop over the stream.
func (c *Context) Send(chunks ...abi.Chunk) error {
	f, _ := c.frame.(*frame)
	var err error
	if f != nil && f.out != nil {
		err = f.out.receive(chunks)
	} else {
		err = c.sendToHost(chunks)
	}
	if err == nil && f != nil {
		f.tail.Add(chunks...)
		f.sent = f.sent || len(chunks) > 0
	}
	return err
}

// SendText sends a chunk of text of the model's answer or the tool's result.
func (c *Context) SendText(text string) error {
	return c.Send(abi.Chunk{Kind: c.textKind, Text: text})
}

func (c *Context) sendToHost(chunks []abi.Chunk) error {
	b, err := abijson.Write(nil, &abijson.Sent{Chunks: chunks})
	if err != nil {
		return jsoncodec.Wrap("encode the chunks to send", err)
	}
	if err := c.host.Send(b); err != nil {
		return err
	}
	c.sent = c.sent || len(chunks) > 0
	return nil
}

// readStream opens the host's stream, passes its chunks to receive, and returns the end of the
// stream. It stops at the first error of receive.
func readStream(h Host, patch []byte, receive func([]abi.Chunk) error) (*contract.StreamEnd, error) {
	if err := h.NextStream(patch); err != nil {
		return nil, err
	}
	for {
		b, err := h.Recv()
		if err != nil {
			return nil, err
		}
		var got contract.Received
		if len(b) > 0 {
			if err := abijson.Read(b, (*abijson.Received)(&got)); err != nil {
				return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to recv: " + err.Error()}
			}
		}
		switch {
		case got.End != nil:
			return got.End, nil
		case len(got.Chunks) == 0:
			return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's stream ended without a reply"}
		}
		if err := receive(got.Chunks); err != nil {
			return nil, err
		}
	}
}

// Chunks are the available pieces of a streamed answer. The hook may change Items in any
// way; without items, nothing is passed on.
type Chunks struct {
	Items []abi.Chunk
	// Stream identifies the stream of the chunks within the run. Do not combine chunks of
	// different streams: a failed call that is repeated has a new stream.
	Stream int64
	// Final is true in the last call for each message. Items may be empty then.
	Final bool
}

func (*Chunks) collect(m *Module, _ abi.Hook) any { return collect[OnChunkHook](m) }

func (*Chunks) serve(s *served) (abijson.Writable, error) {
	v := hookCallOf[chunksInput, abijson.OnChunkAnswer](s)
	v.in.Chunks = v.in.one[:0]
	if err := v.begin(s, (*abijson.OnChunkInput)(&v.in.OnChunkInput), &v.in.Common); err != nil {
		return nil, err
	}
	made := &struct {
		Chunks
		one [1]abi.Chunk
	}{Chunks: Chunks{Stream: v.in.Stream, Final: v.in.Final}}
	chunks := &made.Chunks
	if len(v.in.Chunks) == 1 {
		chunks.Items = made.one[:]
	} else {
		chunks.Items = make([]abi.Chunk, len(v.in.Chunks))
	}
	copyChunks(chunks.Items, v.in.Chunks)
	for _, h := range hooks[OnChunkHook](s) {
		if err := h.OnChunk(v.ctx, chunks); err != nil {
			return nil, err
		}
	}
	if !sameChunks(chunks.Items, v.in.Chunks) {
		if v.out.Chunks = chunks.Items; chunks.Items == nil {
			v.out.Chunks = []abi.Chunk{} // nil would mean unchanged
		}
	}
	return &v.out, nil
}

// A chunksInput is the input of on_chunk with memory for one chunk, which is the most common
// number.
type chunksInput struct {
	abi.OnChunkInput
	one [1]abi.Chunk
}

// copyChunks copies chunks and their parts to out, so that a hook can change them in place.
func copyChunks(out, chunks []abi.Chunk) {
	copy(out, chunks)
	for i := range out {
		if out[i].Part != nil {
			part := *out[i].Part
			out[i].Part = &part
		}
	}
}

func sameChunks(a, b []abi.Chunk) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameChunk(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func sameChunk(a, b *abi.Chunk) bool {
	if a.Part == b.Part {
		return *a == *b
	}
	other := *b
	other.Part = a.Part
	return clone.SamePart(a.Part, b.Part) && *a == other
}
