package ending

import "context"

// An AbortedError ends the run because its context is done, by cancellation or a deadline, or
// because the host could not persist it.
type AbortedError struct{ Cause error }

// Error returns the cause's message.
func (o *AbortedError) Error() string { return o.Cause.Error() }

// Unwrap returns the cause.
func (o *AbortedError) Unwrap() error { return o.Cause }

// FromContext returns an [*AbortedError] if ctx is done, else nil. Errors that merely wrap one of
// package context are not endings: another timeout ends a call, not the run.
func FromContext(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return &AbortedError{cause}
	}
	return nil
}
