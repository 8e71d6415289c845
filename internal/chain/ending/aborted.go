package ending

import "context"

// An Over ends the run because its context ended: it was canceled, or its
// deadline passed.
type AbortedError struct{ Cause error }

// Error is that of the cause.
func (o *AbortedError) Error() string { return o.Cause.Error() }

// Unwrap returns the cause.
func (o *AbortedError) Unwrap() error { return o.Cause }

// over is an ending if ctx has ended, else nil. An error that merely wraps
// one of package context is none: somebody's time-out ends a call, not the run.
func FromContext(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return &AbortedError{cause}
	}
	return nil
}
