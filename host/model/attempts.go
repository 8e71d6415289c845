package model

import (
	"context"
	"time"
)

// An Attempt is one that failed and was followed by another.
type Attempt struct {
	Model string // the name in its request
	Err   *Error
	// Tries is how often this model was tried so far.
	Tries int
	// Next is the name of the model that is tried next, after Wait.
	Next string
	Wait time.Duration
}

type attemptsKey struct{}

// WithAttempts returns a context for a call: fn hears of each attempt of it
// that failed and is followed by another, before the pause between them. It is
// called by one goroutine at a time. Attempts are made only while nothing of
// the answer has reached the sink.
func WithAttempts(ctx context.Context, fn func(Attempt)) context.Context {
	return context.WithValue(ctx, attemptsKey{}, fn)
}

// tell tells of an attempt: whom the context names, and whom an option does.
func (a Attempt) tell(ctx context.Context, option func(context.Context, Attempt)) {
	if fn, ok := ctx.Value(attemptsKey{}).(func(Attempt)); ok {
		fn(a)
	}
	if option != nil {
		option(ctx, a)
	}
}
