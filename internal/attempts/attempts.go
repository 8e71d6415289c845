// Package attempts defines the context key under which the agent's loop passes a function to the
// retries and fallbacks of package model.
package attempts

// Key is the context key of a func(model.Attempt). The function is called after each failed attempt
// that is followed by another one, before the delay between the two, by one goroutine at a time.
type Key struct{}
