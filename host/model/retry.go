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

// RetryOptions configure the number of retries and the delays.
type RetryOptions struct {
	// MaxRetries is the maximum number of retries. The default is 2. A negative value
	// disables retries.
	MaxRetries int
	// Base is the delay before the first retry. The default is 500 ms. Each further delay is
	// twice as long, up to Max, whose default is 30 s. A random jitter then changes each delay
	// by up to 25 %. A delay that the endpoint requests replaces the computed one.
	Base, Max time.Duration
	// MaxRetryAfter is the maximum delay that an endpoint may request. The default is 2 minutes.
	// If an endpoint requests more, the call is not retried.
	MaxRetryAfter time.Duration
	// OnAttempt is called for each attempt that is followed by another, before the delay,
	// with the context of the call. Calls may be concurrent.
	OnAttempt func(context.Context, Attempt)
	// Sleep waits for a duration, or returns the error of the context if it is done first.
	// The default uses the system clock.
	Sleep func(context.Context, time.Duration) error
}

type retry struct {
	model Model
	opts  RetryOptions
}

// WithRetry returns m with retries. A call that fails with a retryable error is retried, up to
// MaxRetries times. It is not retried if a chunk of the answer has been delivered, if the endpoint
// requests a delay that is too long, or if the context's deadline is before the end of the delay. The
// returned error is the error of the last attempt, and contains the number of attempts if there were
// several. If the context is done, it is the error of the context. The options are copied; nil means
// the defaults.
func WithRetry(m Model, o *RetryOptions) Model {
	var opts RetryOptions
	if o != nil {
		opts = *o
	}
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
		Attempt{Model: req.Model, Err: failed, Tries: tries, Next: req.Model, Wait: wait}.report(ctx, r.opts.OnAttempt)
		if err := r.opts.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// wait returns the delay after the given number of tries. asked is the delay that the endpoint
// requested, or 0. If asked is 0, wait returns an exponential delay with jitter, otherwise asked.
func (r *retry) wait(tries int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked
	}
	d := min(float64(r.opts.Base)*math.Pow(2, float64(tries-1)), float64(r.opts.Max))
	return time.Duration(d * (0.75 + rand.Float64()/2))
}

// last returns nil if the call may be retried. Otherwise it returns the error of the last attempt,
// with the reason.
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

// with returns a copy of e with another message and with e as its cause.
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
