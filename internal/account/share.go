package account

import (
	"context"
	"sync/atomic"
)

// A Share is the part of an account that one object of varying size uses. The zero Share, and a
// Share of a nil account, reserve nothing. All methods may be called concurrently.
type Share struct {
	of *Account
	n  atomic.Int64 // size in bytes; while it grows, the reservation comes first
}

// NewShare returns an empty share of an account.
func NewShare(a *Account) *Share { return &Share{of: a} }

// Set sets the size of the share to n bytes. It fails as [Account.TryReserve] does, and then changes
// nothing. Shrinking never fails.
func (s *Share) Set(n int64) error {
	n = max(n, 0)
	for {
		was := s.n.Load()
		if n == was {
			return nil
		}
		if err := s.of.TryReserve(n - was); err != nil {
			return err
		}
		if s.n.CompareAndSwap(was, n) {
			s.of.Release(was - n)
			return nil
		}
		s.of.Release(n - was) // another call changed the size at the same time
	}
}

// Add adds n bytes, or subtracts them if n is negative, down to zero. It fails as Set does.
func (s *Share) Add(n int64) error {
	if n >= 0 {
		err := s.of.TryReserve(n)
		if err == nil {
			s.n.Add(n)
		}
		return err
	}
	for {
		was := s.n.Load()
		less := min(was, -n)
		if s.n.CompareAndSwap(was, was-less) {
			s.of.Release(less)
			return nil
		}
	}
}

// Force adds n bytes, even above the limits.
func (s *Share) Force(n int64) {
	s.of.Force(n)
	s.n.Add(max(n, 0))
}

// Size returns the size of the share in bytes.
func (s *Share) Size() int64 { return s.n.Load() }

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
