package model

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/internal/attempts"
)

// An Attempt reports a failed model call that is followed by another attempt.
type Attempt struct {
	Model string // the model's name in the request
	Err   *Error
	// Tries is the number of attempts of this model so far.
	Tries int
	// Next is the name of the model for the next attempt, after Wait.
	Next string
	Wait time.Duration
}

// report passes an attempt to the function in the context, if the context has one, and to option, if
// option is not nil.
func (a Attempt) report(ctx context.Context, option func(context.Context, Attempt)) {
	if fn, ok := ctx.Value(attempts.Key{}).(func(Attempt)); ok {
		fn(a)
	}
	if option != nil {
		option(ctx, a)
	}
}
