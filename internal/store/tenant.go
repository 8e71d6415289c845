package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A Tenant gives access to the data of one tenant. Its statements go through a scoped transaction,
// which rejects statements that could access the rows of other tenants. The methods for runs check
// the tenant of the run instead.
type Tenant struct {
	s  *store
	id string
}

// ID returns the tenant's id.
func (n *Tenant) ID() string { return n.id }

// scoped wraps a transaction and passes the tenant as the first parameter of every statement. It
// rejects statements that do not use the parameter, since they could access the rows of other
// tenants.
type scoped struct {
	tx     database.Tx
	tenant string
}

// scopes are the forms in which a statement refers to its tenant.
var scopes = []string{"tenant = $1", "VALUES ($1,"}

func (t scoped) check(sql string) error {
	for _, form := range scopes {
		if strings.Contains(sql, form) {
			return nil
		}
	}
	return fmt.Errorf("the statement is not scoped to a tenant: %s", sql)
}

// Exec implements [database.Tx].
func (t scoped) Exec(sql string, args ...any) (int64, error) {
	if err := t.check(sql); err != nil {
		return 0, err
	}
	return t.tx.Exec(sql, append([]any{t.tenant}, args...)...)
}

// Query implements [database.Tx].
func (t scoped) Query(scan func(scan func(...any) error) error, sql string, args ...any) error {
	if err := t.check(sql); err != nil {
		return err
	}
	return t.tx.Query(scan, sql, append([]any{t.tenant}, args...)...)
}

// row executes a query and reads the row of its result into out. If there is no row, out stays
// unchanged.
func (t scoped) row(out []any, sql string, args ...any) error {
	_, err := database.One(t, sql, args, out...)
	return err
}

// view runs fn in a read-only transaction.
func (n *Tenant) view(ctx context.Context, fn func(scoped) error) error {
	return n.s.db.View(ctx, func(t database.Tx) error { return fn(scoped{t, n.id}) })
}

// update runs fn in a durable transaction; see [Tenant.transact].
func (n *Tenant) update(ctx context.Context, fn func(scoped) error) error {
	return n.transact(ctx, database.TxOptions{}, fn)
}

// transact runs fn in a transaction that locks the tenant's row, so that no other machine
// changes the tenant's counts until the transaction ends. It fails with [ErrNoTenant] if the
// tenant does not exist.
func (n *Tenant) transact(ctx context.Context, o database.TxOptions, fn func(scoped) error) error {
	return n.s.db.Update(ctx, o, func(t database.Tx) error {
		locked, err := t.Exec(`UPDATE tenants SET id = id WHERE id = $1`, n.id)
		if err != nil {
			return err
		}
		if locked == 0 {
			return database.ForCaller(fmt.Errorf("tenant %q: %w", n.id, ErrNoTenant))
		}
		return fn(scoped{t, n.id})
	})
}
