package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// Defaults of SafeOptions.
const (
	DefaultTimeout   = 2 * time.Minute
	DefaultMaxResult = 1 << 20
)

// SafeOptions bound a tool.
type SafeOptions struct {
	Timeout   time.Duration // of one call; DefaultTimeout when 0
	MaxResult int           // bytes of a result's text; DefaultMaxResult when 0
}

// Safe wraps a tool so that no call of it panics, outlasts its time, or gives
// a result that is too large or not valid UTF-8. A tool that does not end
// with its context is left behind.
func Safe(t Tool, o SafeOptions) Tool {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxResult <= 0 {
		o.MaxResult = DefaultMaxResult
	}
	return &safeTool{t, o}
}

type safeTool struct {
	Tool
	o SafeOptions
}

type outcome struct {
	res *abi.Result
	err error
}

func (t *safeTool) Call(ctx context.Context, call abi.Call) (*abi.Result, error) {
	limit := fmt.Errorf("tool %q did not answer within %v", call.Name, t.o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, t.o.Timeout, limit)
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		var out outcome
		defer func() {
			if v := recover(); v != nil {
				out = outcome{err: fmt.Errorf("tool %q panicked: %v", call.Name, v)}
			}
			done <- out
		}()
		out.res, out.err = t.Tool.Call(ctx, call)
	}()
	select {
	case out := <-done:
		if out.err != nil && context.Cause(ctx) == limit { //nolint:errorlint // this very error, not one like it
			out.err = limit
		}
		return t.clean(out.res), out.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (t *safeTool) clean(res *abi.Result) *abi.Result {
	if res == nil {
		return nil
	}
	out := *res
	if !res.Content.IsParts() {
		out.Content = abi.Text(t.cut(res.Content.String()))
		return &out
	}
	parts := append([]abi.Part(nil), res.Content.Parts()...)
	for i := range parts {
		parts[i].Text = t.cut(parts[i].Text)
	}
	out.Content = abi.Parts(parts...)
	return &out
}

func (t *safeTool) cut(s string) string {
	if len(s) > t.o.MaxResult {
		return strings.ToValidUTF8(s[:t.o.MaxResult], "") + fmt.Sprintf("\n[cut: the result has %d bytes, at most %d are kept]", len(s), t.o.MaxResult)
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
