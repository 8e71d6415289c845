package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// RetryOptions say how often and after what time a failed call is made again.
type RetryOptions struct {
	// MaxRetries is how often a call is made again; 2 if 0, never if negative.
	MaxRetries int
	// Base is the pause before the first retry, 500 ms if 0. Each further
	// pause is twice as long, up to Max, 30 s if 0; and each is up to a
	// quarter shorter or longer, by chance.
	Base, Max time.Duration
	// MaxRetryAfter is the longest pause that an endpoint may ask for, 2
	// minutes if 0. One that asks for more is not asked again.
	MaxRetryAfter time.Duration
	// OnAttempt hears of each attempt that is followed by another, before the
	// pause. It is called with the context of the call, from any goroutine.
	OnAttempt func(context.Context, Attempt)
	// Sleep waits, or returns the error of a context that ends before; nil
	// stands for the clock.
	Sleep func(context.Context, time.Duration) error
}

type retry struct {
	model Model
	opts  RetryOptions
}

// WithRetry returns m with retries: a call that fails with a retryable error
// is made again, unless a chunk of the answer has been delivered, the pause
// that the endpoint asks for is too long, or the context would end within the
// pause. The error is the last one, and says how many attempts there were.
func WithRetry(m Model, opts RetryOptions) Model {
	if opts.MaxRetries == 0 {
		opts.MaxRetries = 2
	}
	if opts.Base <= 0 {
		opts.Base = 500 * time.Millisecond
	}
	if opts.Max <= 0 {
		opts.Max = 30 * time.Second
	}
	if opts.MaxRetryAfter <= 0 {
		opts.MaxRetryAfter = 2 * time.Minute
	}
	if opts.Sleep == nil {
		opts.Sleep = sleep
	}
	return &retry{m, opts}
}

// Generate implements Model.
func (r *retry) Generate(ctx context.Context, req *Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	d := delivery{sink: sink}
	for tries := 1; ; tries++ {
		res, failed, err := d.generate(ctx, r.model, req)
		if failed == nil {
			return res, err
		}
		wait := r.wait(tries, failed.RetryAfter)
		if err := r.last(ctx, failed, tries, wait); err != nil {
			return nil, err
		}
		Attempt{Model: req.Model, Err: failed, Tries: tries, Next: req.Model, Wait: wait}.tell(ctx, r.opts.OnAttempt)
		if err := r.opts.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// wait is the pause after so many tries.
func (r *retry) wait(tries int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked
	}
	d := min(float64(r.opts.Base)*math.Pow(2, float64(tries-1)), float64(r.opts.Max))
	return time.Duration(d * (0.75 + rand.Float64()/2))
}

// last is the error of the last attempt, or nil if another is to be made.
func (r *retry) last(ctx context.Context, failed *Error, tries int, wait time.Duration) error {
	var why string
	deadline, bounded := ctx.Deadline()
	switch {
	case !failed.Retryable || tries > r.opts.MaxRetries:
	case wait > r.opts.MaxRetryAfter:
		why = fmt.Sprintf("the endpoint asks for a pause of %s", wait.Round(time.Second))
	case bounded && time.Until(deadline) <= wait:
		why = "no time is left for another try"
	default:
		return nil
	}
	if tries > 1 {
		why = strings.TrimSuffix(fmt.Sprintf("tried %d times, %s", tries, why), ", ")
	}
	if why == "" {
		return failed
	}
	return failed.with("%s (%s)", failed.Message, why)
}

// with is e with another message, and e as its cause.
func (e *Error) with(format string, args ...any) *Error {
	out := *e
	out.Message, out.Err = fmt.Sprintf(format, args...), e
	return &out
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
