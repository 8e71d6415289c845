package account

import (
	"context"
	"sync"
)

// A Share is the part of an account that one thing of a changing size uses. The
// zero Share, and one of a nil account, counts nothing.
type Share struct {
	of *Account
	mu sync.Mutex
	n  int64
}

// NewShare returns a share of a.
func NewShare(a *Account) *Share { return &Share{of: a} }

// Set makes the share n bytes large, or fails with a [*LimitError] and leaves it as
// it is. To shrink never fails.
func (s *Share) Set(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(n)
}

// Add makes the share n bytes larger, or smaller if n is negative.
func (s *Share) Add(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(s.n + n)
}

// Force makes the share n bytes larger, even above the limits.
func (s *Share) Force(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.Force(n)
	s.n += max(n, 0)
}

func (s *Share) set(n int64) error {
	n = max(n, 0)
	if n > s.n {
		if err := s.of.TryReserve(n - s.n); err != nil {
			return err
		}
	} else {
		s.of.Release(s.n - n)
	}
	s.n = n
	return nil
}

// Size returns how large the share is.
func (s *Share) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// contextKey is the key of the account in a context.
type contextKey struct{}

// WithContext returns a context that carries an account.
func WithContext(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// FromContext returns the account that a context carries, nil if it carries none.
func FromContext(ctx context.Context) *Account {
	a, _ := ctx.Value(contextKey{}).(*Account)
	return a
}
