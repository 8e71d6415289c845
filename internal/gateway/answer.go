package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/pump"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// read reads the upstream's response, and returns its answer. It sends the chunks of a streamed answer
// to out.
func (x *exchange) read(ctx context.Context, res *http.Response, out pipe.Sink) (*abi.Response, error) {
	switch {
	case isRefusal(res.StatusCode) || x.endpoint.count && res.StatusCode == http.StatusOK:
		return nil, x.refuse(res)
	case res.StatusCode != http.StatusOK:
		return nil, abort(unexpected(res))
	}
	x.reply.answeredBy(res.Header)
	switch {
	case out == nil:
		return x.whole(res.Body)
	case !isEventStream(res):
		return nil, abort(wire.Errorf(wire.CodeUpstream, "the upstream did not stream its answer"))
	}
	return pump.Run(ctx, out, true, "the upstream",
		func(_ context.Context, put func(abi.Chunk) error) (*abi.Response, error) {
			return x.receive(res.Body, put)
		})
}

// errCut returns the error of a streamed answer whose end is missing.
func errCut() error {
	return &abi.Error{Code: abi.CodeModel, Message: "the upstream's answer was cut", Retryable: true}
}

// whole reads an answer that is not streamed.
func (x *exchange) whole(body io.Reader) (*abi.Response, error) {
	b, err := x.readAll(body, x.g.maxHeld())
	if err != nil {
		return nil, err
	}
	if x.answer, err = x.endpoint.protocol.ParseAnswer(b); err != nil {
		return nil, abort(err)
	}
	return x.answer.Response(), nil
}

// readAll reads the body of a response. It returns an error if the body has more than limit bytes.
func (x *exchange) readAll(body io.Reader, limit int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(x.counted(body), int64(limit)+1))
	if full, ok := errors.AsType[*wire.Error](err); ok {
		return nil, abort(full)
	}
	if err != nil {
		return nil, errCut()
	}
	if len(b) > limit {
		return nil, abort(wire.Errorf(wire.CodeUpstream, "the upstream's answer has more than %d bytes", limit))
	}
	return b, nil
}

// maxEvent limits one event of an upstream, in bytes.
const maxEvent = 16 << 20

// afterEnd limits the time in which events after the end of an answer are read.
const afterEnd = 250 * time.Millisecond

// receive reads a streamed answer, and calls put with each of its chunks.
func (x *exchange) receive(body io.ReadCloser, put func(abi.Chunk) error) (*abi.Response, error) {
	events := wire.NewEventReader(body, maxEvent, x.charge)
	var last *time.Timer // closes body after the end of the answer if the upstream does not
	for {
		event, err := events.Next()
		cut := errors.Is(err, io.ErrUnexpectedEOF)
		switch complete := x.reply.isComplete(); {
		case err != nil && complete:
			if cut { // some upstreams omit the blank line after the last event
				if _, err := x.take(event); err != nil {
					return nil, err
				}
			}
			return visible(x.reply.response()), nil
		case err != nil:
			if known, ok := errors.AsType[*wire.Error](err); ok {
				return nil, abort(known)
			}
			return nil, errCut()
		}
		chunks, err := x.take(event)
		if err != nil {
			return nil, err
		}
		if last == nil && x.reply.isComplete() {
			last = time.AfterFunc(afterEnd, func() { _ = body.Close() })
			defer last.Stop()
		}
		for i := range chunks {
			if err := put(chunks[i]); err != nil {
				return nil, err
			}
		}
	}
}

// take passes an event of the upstream to the reply, and returns the chunks of the event.
func (x *exchange) take(event []byte) ([]abi.Chunk, error) {
	chunks, held, err := x.reply.receive(event)
	if err == nil {
		err = x.hold(held, chunks)
	}
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return nil, abort(known)
	}
	return chunks, err
}

// visible returns an answer without its opaque parts, as a stream has no chunks for them.
func visible(res *abi.Response) *abi.Response {
	opaque := func(p abi.Part) bool { return wire.Opaque(&p) }
	parts := res.Message.Content.Parts()
	if !slices.ContainsFunc(parts, opaque) {
		return res
	}
	out := *res
	out.Message.Content = abi.Content{}
	if parts = slices.DeleteFunc(slices.Clone(parts), opaque); len(parts) > 0 {
		out.Message.Content = abi.Parts(parts...)
	}
	return &out
}
