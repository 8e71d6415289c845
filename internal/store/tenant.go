package store

import (
	"context"
	"fmt"
	"strings"
)

// A Tenant is what belongs to one tenant. Its methods reach no row of another
// one's: each statement that they make goes through a scoped transaction.
type Tenant struct {
	s  *store
	id string
}

// ID is the tenant's.
func (n *Tenant) ID() string { return n.id }

// scoped is a transaction in which the first parameter of every statement is
// the tenant. A statement that does not ask for it is refused: it would see
// the rows of others.
type scoped struct {
	tx     tx
	tenant string
}

// scopes are the forms in which a statement asks for its tenant.
var scopes = []string{"tenant = $1", "VALUES ($1,"}

func (t scoped) check(sql string) error {
	for _, form := range scopes {
		if strings.Contains(sql, form) {
			return nil
		}
	}
	return fmt.Errorf("a statement is not scoped by its tenant: %s", sql)
}

func (t scoped) exec(sql string, args ...any) (int64, error) {
	if err := t.check(sql); err != nil {
		return 0, err
	}
	return t.tx.exec(sql, append([]any{t.tenant}, args...)...)
}

func (t scoped) query(scan func(scan func(...any) error) error, sql string, args ...any) error {
	if err := t.check(sql); err != nil {
		return err
	}
	return t.tx.query(scan, sql, append([]any{t.tenant}, args...)...)
}

// view runs fn, which only reads.
func (n *Tenant) view(ctx context.Context, fn func(scoped) error) error {
	return n.s.view(ctx, func(t tx) error { return fn(scoped{t, n.id}) })
}

// update runs fn in a transaction that holds the tenant's row, so that what it
// counts does not change meanwhile, here or on another machine. It fails with
// [ErrNoTenant] if there is none.
func (n *Tenant) update(ctx context.Context, fn func(scoped) error) error {
	return n.in(ctx, false, fn)
}

// in is update, or a lazy one.
func (n *Tenant) in(ctx context.Context, lazy bool, fn func(scoped) error) error {
	return n.s.update(ctx, lazy, func(t tx) error {
		held, err := t.exec(`UPDATE tenants SET id = id WHERE id = $1`, n.id)
		if err != nil {
			return err
		}
		if held == 0 {
			return ownError{fmt.Errorf("tenant %q: %w", n.id, ErrNoTenant)}
		}
		return fn(scoped{t, n.id})
	})
}
