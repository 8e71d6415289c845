package ending

import "context"

// An AbortedError ends the run because its context is done, by cancellation or a deadline, or
// because the host could not persist it.
type AbortedError struct{ Cause error }

// Error returns the cause's message.
func (o *AbortedError) Error() string { return o.Cause.Error() }

// Unwrap returns the cause.
func (o *AbortedError) Unwrap() error { return o.Cause }

// FromContext returns an [*AbortedError] with the cause of ctx if ctx is done, and nil otherwise. To
// decide whether the run ends, use it rather than an error that wraps [context.Canceled] or
// [context.DeadlineExceeded]: the timeout of a single call does not end the run.
func FromContext(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return &AbortedError{cause}
	}
	return nil
}
