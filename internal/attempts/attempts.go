// Package attempts has the key under which a context holds the function that the loop gives to
// the retries and fallbacks of package model.
package attempts

// Key is the context's key of a func(model.Attempt). It is called for each failed attempt that is
// followed by another one, before the delay between them, by one goroutine at a time.
type Key struct{}
