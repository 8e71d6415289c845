package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
)

// A Streamer is a tool that says pieces of its result while it runs.
type Streamer interface {
	Tool
	// Stream is Call, and hands to out what there is already. The result that it
	// returns is what the model is told; nil means what was handed to out, put
	// together. Where nobody wants pieces, Call is called.
	Stream(ctx context.Context, call abi.Call, out *Out) (*abi.Result, error)
}

// StreamFunc is a streaming tool that is a Go function. Called as a whole, its
// result is the one it returns, or what it handed to out.
func StreamFunc(declaration abi.Tool, stream func(ctx context.Context, call abi.Call, out *Out) (*abi.Result, error)) Streamer {
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

// Out takes the pieces of a tool's result. Its methods may be called from
// several goroutines, wait while the run is behind, and return an error once
// nobody takes pieces any more: the call is over, or they were too many. A tool
// that goes on nevertheless is not heard.
//
// It is an [io.Writer] of text as well: characters may be split between writes.
type Out struct {
	put        func(abi.Chunk) error
	text, rest int // bytes that may come of text, and of other parts as JSON; negative: any number

	mu      sync.Mutex
	pieces  []abi.Part      // but the text that goes on
	running strings.Builder // that text
	err     error
}

// NewOut returns an Out that hands each piece to put, one at a time.
func NewOut(put func(abi.Chunk) error) *Out { return &Out{put: put, text: -1, rest: -1} }

// Text hands out a piece of text, which follows on the one before.
func (o *Out) Text(text string) error {
	if text == "" {
		return nil
	}
	return o.add(abi.Part{Type: abi.PartText, Text: text}, abi.Chunk{Kind: abi.ChunkToolResult, Text: text}, len(text), &o.text)
}

// Part hands out an image, audio, a file or a text of its own.
func (o *Out) Part(p abi.Part) error {
	size := len(p.Text)
	budget := &o.text
	if p.Type != abi.PartText {
		b, err := abi.Marshal(p)
		if err == nil {
			err = abi.Valid(b)
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
		o.err = &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("a piece of %d bytes of type %q is more than what is left of a result's limits; nothing more of it is handed on", size, p.Type)}
		o.running.WriteString(p.Text) // the result is cut where it is too long, and says so
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

// flush makes the text that goes on a part.
func (o *Out) flush() {
	if o.running.Len() > 0 {
		o.pieces = append(o.pieces, textPart(o.running.String()))
		o.running.Reset()
	}
}

// result is what was handed out, put together.
func (o *Out) result() *abi.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pieces) == 0 {
		return abi.TextResult(o.running.String())
	}
	o.flush()
	return &abi.Result{Content: abi.Parts(slices.Clone(o.pieces)...)}
}

// Stream calls the tool with out taking its pieces, within the limits of a
// result: a tool that says more is told so. A tool that does not stream is
// called as a whole. Errors are as those of Call.
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

// Streams reports whether the tool says pieces of its result while it runs.
func (t *SafeTool) Streams() bool {
	_, ok := t.Tool.(Streamer)
	return ok
}
