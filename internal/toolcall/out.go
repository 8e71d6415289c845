package toolcall

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// Out receives the parts of a tool's result. Its methods are safe for concurrent use. They block until
// the run can take more, and return an error once the call has ended or the result is too large. Later
// parts are discarded.
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

// Unlimited is a limit for NewOut that no result reaches.
const Unlimited = -1

// NewOut returns an Out that calls put with each part, sequentially, until the result has more than
// text bytes of text, or more than rest bytes of other parts as JSON.
func NewOut(text, rest int, put func(abi.Chunk) error) *Out {
	return &Out{put: put, text: text, rest: rest}
}

// Limited returns an Out with its own limits that passes its parts to the same function as o.
func (o *Out) Limited(text, rest int) *Out { return NewOut(text, rest, o.put) }

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

// add sends a part and the chunk for it, and subtracts size from budget. A negative budget means no
// limit.
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
				"a piece of %d bytes of type %q exceeds the rest of the result's limits; the rest of the result is dropped",
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

// flush adds the current text to the complete parts, as a part of its own.
func (o *Out) flush() {
	if o.running.Len() > 0 {
		o.pieces = append(o.pieces, abi.Part{Type: abi.PartText, Text: o.running.String()})
		o.running.Reset()
	}
}

// Result returns everything that was sent as one result.
func (o *Out) Result() *abi.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pieces) == 0 {
		return abi.TextResult(o.running.String())
	}
	o.flush()
	return &abi.Result{Content: abi.Parts(slices.Clone(o.pieces)...)}
}
