// Package safetool wraps tools so that their calls do not harm the run. It limits the time and the
// result of each call, and turns panics into errors.
package safetool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Defaults of Options.
const (
	defaultTimeout   = 2 * time.Minute
	defaultMaxResult = 1 << 20
	defaultMaxMedia  = 4 << 20
	defaultMaxLeft   = 64
)

// Options configure the limits of a Tool.
type Options struct {
	Timeout   time.Duration // of one call; the default is 2 minutes
	MaxResult int           // bytes of text in all parts of a result; the default is 1 MiB
	MaxMedia  int           // bytes of other parts as JSON; the default is MaxResult if that is set, else 4 MiB
	MaxLeft   int           // abandoned calls that have not returned; the default is 64
}

// New wraps a tool so that no call panics, exceeds its timeout, or returns a result that is too
// large or not valid UTF-8. A call that does not return when its context is done is abandoned. If
// too many abandoned calls have not returned, further calls fail. New copies the options; nil
// selects the defaults.
func New(t tool.Tool, options *Options) *Tool {
	var o Options
	if options != nil {
		o = *options
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxMedia <= 0 {
		o.MaxMedia = defaultMaxMedia
		if o.MaxResult > 0 {
			o.MaxMedia = o.MaxResult
		}
	}
	if o.MaxResult <= 0 {
		o.MaxResult = defaultMaxResult
	}
	if o.MaxLeft <= 0 {
		o.MaxLeft = defaultMaxLeft
	}
	return &Tool{Tool: t, o: o}
}

// A Tool wraps an untrusted tool and limits its calls.
type Tool struct {
	tool.Tool
	o    Options
	left atomic.Int64
}

// Left returns the number of abandoned calls that have not returned.
func (t *Tool) Left() int { return int(t.left.Load()) }

// A PanicError is a panic of a tool. The model receives the text of the error, which does not
// contain the stack.
type PanicError struct {
	Tool  string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("tool %q panicked: %v", e.Tool, e.Value) }

type outcome struct {
	res *abi.Result
	err error
}

// Call calls the tool. If the call times out, the error is an [*abi.Error] with the code
// [abi.CodeLimit]. If too many abandoned calls have not returned, its code is
// [abi.CodeUnavailable]. If the tool panics, the error wraps a [*PanicError]. The text of the
// tool's own errors is truncated. A result with an invalid or too large Extra becomes an error. If
// ctx is done before the tool returns, the error is the cause of ctx.
func (t *Tool) Call(ctx context.Context, call abi.Call) (*abi.Result, error) {
	return t.guard(ctx, call, func(ctx context.Context) (*abi.Result, error) { return t.Tool.Call(ctx, call) })
}

// guard calls fn, which calls the tool, in a new goroutine and enforces the limits.
func (t *Tool) guard(
	ctx context.Context,
	call abi.Call,
	fn func(context.Context) (*abi.Result, error),
) (*abi.Result, error) {
	if left := t.Left(); left >= t.o.MaxLeft {
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf(
			"tool %q is not called: %d earlier calls did not end when they had to", call.Name, left)}
	}
	limit := &abi.Error{
		Code:    abi.CodeLimit,
		Message: fmt.Sprintf("tool %q did not answer within %v", call.Name, t.o.Timeout),
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.o.Timeout, limit)
	defer cancel()

	done := make(chan outcome, 1)
	var over atomic.Bool // set by the tool's goroutine or by its caller, whichever finishes first
	go run(ctx, call, fn, func(out outcome) {
		done <- out
		if over.Swap(true) {
			t.left.Add(-1)
		}
	})
	select {
	case out := <-done:
		if out.err != nil && context.Cause(ctx) == error(limit) { //nolint:errorlint // this very error, not one like it
			out.err = limit
		}
		return t.clean(out)
	case <-ctx.Done():
		t.left.Add(1)
		if over.Swap(true) {
			t.left.Add(-1)
		}
		return nil, context.Cause(ctx)
	}
}

// run calls the tool and reports the outcome. It uses a deferred function, since only that can
// observe panics and runtime.Goexit.
func run(ctx context.Context, call abi.Call, fn func(context.Context) (*abi.Result, error), report func(outcome)) {
	out := outcome{err: fmt.Errorf("tool %q ended its goroutine", call.Name)}
	defer func() {
		if v := recover(); v != nil {
			out = outcome{err: &PanicError{Tool: call.Name, Value: v, Stack: debug.Stack()}}
		}
		report(out)
	}()
	res, err := fn(ctx)
	out = outcome{res, err}
}

// clean validates a result and limits its size, before models and modules receive it.
func (t *Tool) clean(out outcome) (*abi.Result, error) {
	if out.err != nil {
		return nil, t.cleanError(out.err)
	}
	if out.res == nil {
		return abi.TextResult(""), nil
	}
	res := *out.res
	if !isObject(res.Extra) || len(res.Extra) > t.o.MaxResult {
		return nil, fmt.Errorf("the tool's result is unusable: extra must be a JSON object of at most %d bytes",
			t.o.MaxResult)
	}
	if !res.Content.IsParts() {
		if !res.Content.IsNull() {
			res.Content = abi.Text(t.cut(res.Content.String(), t.o.MaxResult))
		}
		return &res, nil
	}
	res.Content = abi.Parts(t.cleanParts(res.Content.Parts())...)
	return &res, nil
}

// isObject reports whether b is empty, or a JSON object that the host can encode.
func isObject(b json.RawMessage) bool {
	if len(b) == 0 {
		return true
	}
	_, err := abijson.Marshal(b)
	return b[0] == '{' && err == nil
}

// partSize is the overhead counted for each part, in bytes.
const partSize = 32

func (t *Tool) cleanParts(parts []abi.Part) []abi.Part {
	left, media := t.o.MaxResult, t.o.MaxMedia
	out := make([]abi.Part, 0, min(len(parts), left/partSize+1))
	for i, p := range parts {
		left -= partSize
		if left <= 0 {
			return append(out,
				textPart(fmt.Sprintf("[cut: %d more parts of the result; the limit is %d bytes]", len(parts)-i, t.o.MaxResult)))
		}
		if p.Type == abi.PartText {
			if _, err := abijson.Marshal(abi.Part{Unknown: p.Unknown}); len(p.Unknown) > 0 && err != nil {
				p.Unknown = nil
			}
			p.Text = t.cut(p.Text, left)
			left -= len(p.Text)
			out = append(out, p)
			continue
		}
		b, err := abijson.Marshal(p)
		switch {
		case err != nil || !utf8.Valid(b):
			p = textPart(
				fmt.Sprintf("[left out: a part of type %q that is not valid JSON]", strings.ToValidUTF8(p.Type, "\ufffd")),
			)
		case len(b) > media:
			p = textPart(
				fmt.Sprintf("[left out: a part of type %q of %d bytes; the limit for a result is %d bytes]",
					p.Type, len(b), t.o.MaxMedia),
			)
		default:
			media -= len(b)
		}
		out = append(out, p)
	}
	return out
}

func textPart(s string) abi.Part { return abi.Part{Type: abi.PartText, Text: s} }

// cut truncates s to limit bytes of valid UTF-8, and appends a note if it was truncated.
func (t *Tool) cut(s string, limit int) string {
	if len(s) <= limit {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.ToValidUTF8(truncate.Text(s, limit), "\ufffd") +
		fmt.Sprintf("\n[cut: this has %d bytes; the limit for a result is %d bytes]", len(s), t.o.MaxResult)
}

// cleanError returns err if its text is short enough and valid UTF-8. Otherwise it returns an error
// with the text truncated and made valid: an [*abi.Error] with the same code, or an error that
// wraps err.
func (t *Tool) cleanError(err error) error {
	text := err.Error()
	if len(text) <= t.o.MaxResult && utf8.ValidString(text) {
		return err
	}
	text = t.cut(text, t.o.MaxResult)
	var coded *abi.Error
	if errors.As(err, &coded) {
		c := *coded
		c.Message = text
		return &c
	}
	return &cutError{text, err}
}

// A cutError wraps an error with a shortened text.
type cutError struct {
	text string
	err  error
}

func (e *cutError) Error() string { return e.text }
func (e *cutError) Unwrap() error { return e.err }

// Stream calls the tool and streams its result to out, within the limits of a result. If the tool
// exceeds a limit, out returns an error to the tool. Stream uses Call if the tool cannot stream.
// The errors are those of Call.
func (t *Tool) Stream(ctx context.Context, call abi.Call, out *tool.Out) (*abi.Result, error) {
	s, ok := t.Tool.(tool.Streamer)
	if !ok {
		return t.Call(ctx, call)
	}
	bounded := out.Limited(t.o.MaxResult, t.o.MaxMedia)
	return t.guard(ctx, call, func(ctx context.Context) (*abi.Result, error) {
		res, err := s.Stream(ctx, call, bounded)
		if err == nil && res == nil {
			res = bounded.Result()
		}
		return res, err
	})
}

// Streams reports whether the tool can stream its result.
func (t *Tool) Streams() bool {
	_, ok := t.Tool.(tool.Streamer)
	return ok
}
