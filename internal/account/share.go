package account

import (
	"context"
	"sync"
)

// A Share is the part of an account that one object of varying size uses. The zero Share, and a
// Share of a nil account, reserve nothing.
type Share struct {
	of *Account
	mu sync.Mutex
	n  int64
}

// NewShare returns an empty share of an account.
func NewShare(a *Account) *Share { return &Share{of: a} }

// Set sets the size of the share to n bytes. It fails as [Account.TryReserve] does, and then changes
// nothing. Shrinking never fails.
func (s *Share) Set(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(n)
}

// Add adds n bytes, or subtracts them if n is negative, down to zero. It fails as Set does.
func (s *Share) Add(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(s.n + n)
}

// Force adds n bytes, even above the limits.
func (s *Share) Force(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.Force(n)
	s.n += max(n, 0)
}

// set is Set for a caller that holds the lock.
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

// Size returns the size of the share in bytes.
func (s *Share) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// contextKey is the key of the account in a context.
type contextKey struct{}

// WithContext returns a context with the account a, which FromContext returns.
func WithContext(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// FromContext returns the account of a context, or nil if it has none.
func FromContext(ctx context.Context) *Account {
	a, _ := ctx.Value(contextKey{}).(*Account)
	return a
}
