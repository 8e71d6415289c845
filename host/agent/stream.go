package agent

import (
	"context"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/chain"
)

// pump lets the maker of a stream and the chain work side by side: while
// on_chunk hooks are busy with some chunks, the next ones gather. ends says
// that the last chunk ends a message, and what who makes it.
func pump[R any](ctx context.Context, out chain.Sink, ends bool, what string, maker func(ctx context.Context, put func(abi.Chunk) error) (R, error)) (R, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed := chain.NewFeed()
	var res R
	var failed error
	made := make(chan struct{})
	go func() {
		defer close(made)
		defer feed.End()
		defer func() {
			if v := recover(); v != nil {
				failed = &abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("%s failed: %v", what, v)}
			}
		}()
		var j joiner
		put := func(c abi.Chunk) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !j.join(&c) {
				return nil
			}
			return feed.Put(ctx, c)
		}
		if res, failed = maker(ctx, put); failed == nil {
			failed = feed.Put(ctx, j.rest()...)
		}
	}()
	defer func() { cancel(); <-made }()
	for {
		chunks, done, err := feed.Take(ctx, math.MaxInt)
		if err != nil {
			var none R // the maker may be at it still
			return none, err
		}
		if done {
			<-made
		}
		final := ends && done && failed == nil
		if len(chunks) > 0 || final {
			if err := out(ctx, chunks, final); err != nil {
				var none R
				return none, err
			}
		}
		if done {
			return res, failed
		}
	}
}

// A joiner puts characters together that a stream of bytes was cut in: what a
// chunk begins and does not end is held until the next one of its kind.
type joiner struct {
	held []abi.Chunk
}

// join completes a chunk, and reports whether there is anything in it.
func (j *joiner) join(c *abi.Chunk) bool {
	text := &c.Text
	switch c.Kind {
	case abi.ChunkToolCall:
		text = &c.Arguments
	case abi.ChunkPart:
		return true
	}
	before := *text
	for i, h := range j.held {
		if h.Kind == c.Kind && h.Index == c.Index {
			*text = h.Text + *text
			j.held = append(j.held[:i:i], j.held[i+1:]...)
			break
		}
	}
	cut := len(*text)
	for i := cut - 1; i >= max(0, cut-utf8.UTFMax+1); i-- {
		if utf8.RuneStart((*text)[i]) {
			if !utf8.FullRuneInString((*text)[i:]) {
				cut = i
			}
			break
		}
	}
	if cut < len(*text) {
		j.held = append(j.held, abi.Chunk{Kind: c.Kind, Index: c.Index, Text: (*text)[cut:]})
		*text = (*text)[:cut]
	}
	return *text != "" || before == "" || c.Kind == abi.ChunkToolCall
}

// rest are the bytes that are still held: no character comes of them.
func (j *joiner) rest() []abi.Chunk {
	for i := range j.held {
		if h := &j.held[i]; h.Kind == abi.ChunkToolCall {
			h.Arguments, h.Text = h.Text, ""
		}
	}
	return j.held
}
