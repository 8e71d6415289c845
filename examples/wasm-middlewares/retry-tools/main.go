// Command retry-tools is a middleware that retries failed tool calls, if that is safe, and
// backs off from a tool that keeps failing.
package main

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "retry-tools",
		Version:     "1.0.0",
		Description: "Calls a tool again that failed, if that does no harm.",
	}, newRetry())
}

func main() {}

func newRetry() *retry { return &retry{Attempts: 3, When: whenTransient, Pause: 1, MaxPause: 60} }

// Kinds of failures to retry.
const (
	whenTransient = "transient"
	whenAny       = "any"
)

type retry struct {
	Tools    []string `json:"tools" doc:"names of the tools that may be called again, * matches any characters; defaults to all tools declared idempotent"`
	Attempts int      `json:"attempts" doc:"how often a call is tried, the first time included, 1 to 10"`
	When     string   `json:"when" doc:"transient: after failures that may pass; any: after all but those that cannot"`
	Match    []string `json:"match" doc:"regular expressions (RE2): an error text in which one matches is transient, too"`
	Pause    int64    `json:"pause" doc:"seconds for which a tool is not called after a call that failed to the end, twice as long each time; 0: none"`
	MaxPause int64    `json:"max_pause" doc:"the longest pause, in seconds"`

	match []*regexp.Regexp
}

// Configure validates the configuration and compiles the patterns.
func (r *retry) Configure(*middleware.Context) error {
	switch {
	case r.Attempts < 1 || r.Attempts > 10:
		return invalid("attempts: %d is not 1 to 10", r.Attempts)
	case r.When != whenTransient && r.When != whenAny:
		return invalid("when: %q is not one of transient, any", r.When)
	case r.Pause < 0 || r.MaxPause < r.Pause || r.MaxPause > 24*3600:
		return invalid("pause: want seconds from 0, and max_pause not below it, and at most a day")
	case r.Attempts == 1 && r.Pause == 0:
		return invalid("attempts is 1 and there is no pause: the module would do nothing")
	}
	r.match = nil
	for i, pattern := range r.Match {
		re, err := regexp.Compile(pattern)
		if err != nil || pattern == "" {
			return invalid("match[%d]: want a regular expression: %v", i, err)
		}
		r.match = append(r.match, re)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + middleware.Sprintf(format, args...)}
}

// WrapToolCall retries a call until it succeeds, fails permanently, or reaches the maximum number
// of attempts. It does not retry a call if output was forwarded, or if the tool asks for a delay.
// During a backoff, it returns an error result without calling the tool. It leaves calls of tools
// that may not be called again to the host.
func (r *retry) WrapToolCall(
	ctx *middleware.Context,
	call *middleware.Call,
	next middleware.NextTool,
) (*abi.Result, error) {
	if again := len(r.Tools) == 0 && call.Idempotent || names.Match(r.Tools, call.Name); !again {
		return nil, nil
	}
	rest := middleware.Local[backoff]("trouble/" + call.Name)
	before, bad, err := rest.Get(ctx)
	if err != nil {
		return nil, err
	}
	if wait := before.Until - ctx.Run.NowMS; bad && wait > 0 {
		return abi.ErrorResult(
			middleware.Sprintf(
				"%s failed %s and is left alone for another %s. Go on without it, or try it again later. It said: %s",
				call.Name,
				times(before.Calls),
				span(wait),
				before.Why,
			),
		), nil
	}
	var result *abi.Result
	for attempt := 1; ; attempt++ {
		var delivered bool
		result, delivered, err = try(ctx, call, next)
		reason, wait, passes := r.failure(result, err)
		if reason == "" || !passes {
			if bad && reason == "" {
				return result, rest.Delete(ctx)
			}
			return result, err
		}
		// A module cannot wait, so a tool that asks for a delay is not retried at once.
		if attempt == r.Attempts || delivered || wait > 0 {
			if failed := r.backoff(ctx, rest, before.Calls+1, wait, reason); failed != nil {
				return nil, failed
			}
			return result, err
		}
		if failed := ctx.Emit("tool_retried", map[string]any{
			"tool": call.Name, "attempt": attempt, "error": reason,
		}); failed != nil {
			return nil, failed
		}
	}
}

// A backoff is the state of a tool whose last call failed.
type backoff struct {
	Calls int    `json:"calls"`    // consecutive failures
	Until int64  `json:"until_ms"` // end of the backoff, Unix time
	Why   string `json:"why"`
}

// backoff stores in rest the time until which the tool is not called. calls is the number of
// consecutive failures. The delay is the one that the tool asked for, in milliseconds, or one that
// starts at Pause seconds and doubles with each failure, whichever is longer. The maximum is MaxPause
// seconds. If Pause is 0, backoff does nothing.
func (r *retry) backoff(
	ctx *middleware.Context,
	rest middleware.Local[backoff],
	calls int,
	asked int64,
	reason string,
) error {
	if r.Pause == 0 {
		return nil
	}
	wait := r.Pause
	for i := 1; i < calls && wait < r.MaxPause; i++ {
		wait *= 2
	}
	until := ctx.Run.NowMS + min(max(wait*1000, asked), r.MaxPause*1000)
	// Use Update, which takes effect immediately. A change by Set would be discarded if the hook
	// fails with the call.
	return rest.Update(ctx, func(backoff) (backoff, error) { return backoff{calls, until, reason}, nil })
}

// span formats a duration in milliseconds, rounded up: in seconds up to 120 s, and otherwise in
// minutes.
func span(ms int64) string {
	if seconds := (ms + 999) / 1000; seconds <= 120 {
		return strconv.FormatInt(seconds, 10) + " s"
	}
	return strconv.FormatInt((ms+59_999)/60_000, 10) + " min"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return middleware.Sprintf("%d times", n)
}

// try makes the call. It forwards a stream as it arrives, except that the first batch waits for the
// second or the end. So a call that fails at once, like any failed call of a tool that does not
// stream, has no visible output and may be retried. Forwarded output is never repeated. delivered
// reports whether output was forwarded.
func try(
	ctx *middleware.Context,
	call *middleware.Call,
	next middleware.NextTool,
) (result *abi.Result, delivered bool, err error) {
	if !call.Stream {
		result, err = next(nil)
		return result, false, err
	}
	stream := next.Stream(nil)
	var first []abi.Chunk
	batches := 0
	for batch := range stream.Batches() {
		if batches++; batches == 1 {
			first = slices.Clone(batch)
			continue
		}
		if err := ctx.Send(append(first, batch...)...); err != nil {
			return nil, true, err
		}
		first, delivered = nil, true
	}
	err, result = stream.End(), stream.Reply()
	if len(first) > 0 && err == nil && result != nil && !result.IsError {
		return result, true, ctx.Send(first...)
	}
	return result, delivered, err
}
