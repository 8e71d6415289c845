package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Streamer is a tool that can stream its result.
type Streamer interface {
	Tool
	// Stream is like Call, but sends parts of the result to out while it runs. The model
	// receives the returned result; if it is nil, the model receives everything sent to out.
	// If no caller needs a stream, Call is used instead.
	Stream(ctx context.Context, call abi.Call, out *Out) (*abi.Result, error)
}

// StreamFunc returns a streaming tool implemented by a Go function. Without streaming, the
// result is the returned one, or everything sent to out.
func StreamFunc(
	declaration abi.Tool,
	stream func(ctx context.Context, call abi.Call, out *Out) (*abi.Result, error),
) Streamer {
	return streamTool{declaration, stream}
}

type streamTool struct {
	declaration abi.Tool
	stream      func(context.Context, abi.Call, *Out) (*abi.Result, error)
}

func (t streamTool) Declaration() abi.Tool { return t.declaration }

func (t streamTool) Stream(ctx context.Context, call abi.Call, out *Out) (*abi.Result, error) {
	return t.stream(ctx, call, out)
}

func (t streamTool) Call(ctx context.Context, call abi.Call) (*abi.Result, error) {
	out := NewOut(func(abi.Chunk) error { return nil })
	res, err := t.stream(ctx, call, out)
	if err == nil && res == nil {
		res = out.result()
	}
	return res, err
}

// Out receives the parts of a tool's result. Its methods are safe for concurrent use. They block
// until the run has room for more, and return an error once the call has ended or the result is too
// large. Later parts are discarded.
//
// Out is also an [io.Writer] of text. Characters may be split between writes.
type Out struct {
	put        func(abi.Chunk) error
	text, rest int // remaining bytes of text, and of other parts as JSON; negative for unlimited

	mu      sync.Mutex
	pieces  []abi.Part      // complete parts
	running strings.Builder // the current text part
	err     error
}

// NewOut returns an Out that calls put with each part, sequentially.
func NewOut(put func(abi.Chunk) error) *Out { return &Out{put: put, text: -1, rest: -1} }

// Text sends a piece of text, which continues the previous one.
func (o *Out) Text(text string) error {
	if text == "" {
		return nil
	}
	return o.add(
		abi.Part{Type: abi.PartText, Text: text},
		abi.Chunk{Kind: abi.ChunkToolResult, Text: text},
		len(text),
		&o.text,
	)
}

// Part sends an image, audio, a file or a separate text part.
func (o *Out) Part(p abi.Part) error {
	size := len(p.Text)
	budget := &o.text
	if p.Type != abi.PartText {
		b, err := abijson.Marshal(p)
		if err == nil {
			err = jsoncodec.Valid(b)
		}
		if err != nil {
			return fmt.Errorf("a part of type %q that is not valid JSON: %w", p.Type, err)
		}
		size, budget = len(b), &o.rest
	}
	return o.add(p, abi.Chunk{Kind: abi.ChunkPart, Part: &p}, size, budget)
}

// Write implements [io.Writer].
func (o *Out) Write(b []byte) (int, error) {
	if err := o.Text(string(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (o *Out) add(p abi.Part, c abi.Chunk, size int, budget *int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
		return o.err
	case *budget >= 0 && size > *budget:
		o.err = &abi.Error{
			Code: abi.CodeLimit,
			Message: fmt.Sprintf(
				"a piece of %d bytes of type %q is more than what is left of a result's limits; nothing more of it is handed on",
				size,
				p.Type,
			),
		}
		o.running.WriteString(p.Text) // the result is truncated at the limit, with a note
		return o.err
	}
	if *budget >= 0 {
		*budget -= size
	}
	if c.Kind == abi.ChunkToolResult {
		o.running.WriteString(p.Text)
	} else {
		o.flush()
		o.pieces = append(o.pieces, p)
	}
	o.err = o.put(c)
	return o.err
}

// flush ends the current text part.
func (o *Out) flush() {
	if o.running.Len() > 0 {
		o.pieces = append(o.pieces, textPart(o.running.String()))
		o.running.Reset()
	}
}

// result returns everything that was sent as one result.
func (o *Out) result() *abi.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pieces) == 0 {
		return abi.TextResult(o.running.String())
	}
	o.flush()
	return &abi.Result{Content: abi.Parts(slices.Clone(o.pieces)...)}
}

// Stream calls the tool and streams its result to out, within the limits of a result. If the
// tool exceeds them, out returns an error to it. A tool that does not stream is called with
// Call. The errors are those of Call.
func (t *SafeTool) Stream(ctx context.Context, call abi.Call, out *Out) (*abi.Result, error) {
	s, ok := t.Tool.(Streamer)
	if !ok {
		return t.Call(ctx, call)
	}
	bounded := &Out{put: out.put, text: t.o.MaxResult, rest: t.o.MaxMedia}
	return t.guard(ctx, call, func(ctx context.Context) (*abi.Result, error) {
		res, err := s.Stream(ctx, call, bounded)
		if err == nil && res == nil {
			res = bounded.result()
		}
		return res, err
	})
}

// Streams reports whether the tool can stream its result.
func (t *SafeTool) Streams() bool {
	_, ok := t.Tool.(Streamer)
	return ok
}
