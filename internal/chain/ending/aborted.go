package ending

import "context"

// An AbortedError ends the run because the run's context is done, or because the host could not
// persist the run.
type AbortedError struct{ Cause error }

// Error returns the cause's message.
func (o *AbortedError) Error() string { return o.Cause.Error() }

// Unwrap returns the cause.
func (o *AbortedError) Unwrap() error { return o.Cause }

// FromContext returns an [*AbortedError] with the cause of ctx if ctx is done, and nil otherwise.
// Callers use FromContext with the run's context to find out whether the run ends. An error that
// wraps [context.Canceled] or [context.DeadlineExceeded] does not show that, because it can come
// from the timeout of a single call.
func FromContext(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return &AbortedError{cause}
	}
	return nil
}
