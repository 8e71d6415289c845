// Package attempts defines the context key under which the agent's loop passes a function to the
// retries and fallbacks of package model.
package attempts

// Key is the context key of a func(model.Attempt). The function is called for each failed attempt
// that another one follows, before the delay between them, by one goroutine at a time.
type Key struct{}
