package model

import (
	"context"
	"time"
)

// An Attempt is a failed model call that is followed by another attempt.
type Attempt struct {
	Model string // the model's name in the request
	Err   *Error
	// Tries is the number of attempts of this model so far.
	Tries int
	// Next is the name of the model for the next attempt, after Wait.
	Next string
	Wait time.Duration
}

type attemptsKey struct{}

// WithAttempts returns a context for a call. fn is called for each failed attempt that is
// followed by another one, before the delay between them, by one goroutine at a time. A
// call is retried only while no part of the answer has reached the sink.
func WithAttempts(ctx context.Context, fn func(Attempt)) context.Context {
	return context.WithValue(ctx, attemptsKey{}, fn)
}

// tell reports an attempt to the function in the context and to option, each of which may be nil.
func (a Attempt) tell(ctx context.Context, option func(context.Context, Attempt)) {
	if fn, ok := ctx.Value(attemptsKey{}).(func(Attempt)); ok {
		fn(a)
	}
	if option != nil {
		option(ctx, a)
	}
}
