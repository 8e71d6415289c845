package middleware

import "slices"

// A wrapper is a wrap hook of either kind: Q is what it passes on, R what it
// gets back.
type wrapper[Q, R any] func(req *Q, next func(*Q) (*R, error)) (*R, error)

// onion puts wrappers around innermost, the first outermost. Each gets a
// request of its own to change, so that a second next of one begins from what
// that one says, not from what those inside it made of the first.
func onion[Q, R any](wrappers []wrapper[Q, R], clone func(*Q) *Q, innermost func(*Q) (*R, error)) func(*Q) (*R, error) {
	layer := innermost
	for _, w := range slices.Backward(wrappers) {
		inner := layer
		layer = func(came *Q) (*R, error) {
			own := clone(came)
			var last *R
			var failed error
			called := false
			reply, err := w(own, func(req *Q) (*R, error) {
				if req == nil {
					req = came
				}
				last, failed = inner(req)
				called = true
				return last, failed
			})
			switch {
			case err != nil:
				return nil, err
			case reply != nil:
				return reply, nil
			case called:
				return last, failed
			default:
				return inner(own)
			}
		}
	}
	return layer
}
