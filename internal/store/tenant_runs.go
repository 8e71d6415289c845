package store

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// own returns a run of the tenant. It fails with [journal.ErrNoRun] for unknown runs and for
// runs of other tenants.
func (n *Tenant) own(ctx context.Context, id string) (info *journal.RunInfo, err error) {
	err = n.s.db.View(ctx, func(t database.Tx) error {
		info, err = n.ownIn(t, id)
		return err
	})
	return info, err
}

// ownIn returns a run of the tenant as own does, and reads it in transaction t.
func (n *Tenant) ownIn(t database.Tx, id string) (*journal.RunInfo, error) {
	info, err := run(t, id)
	if err != nil {
		return nil, err
	}
	if info.Tenant != n.id {
		return nil, database.ForCaller(noRun(id))
	}
	return info, nil
}

// Run returns one of the tenant's runs. It fails with [journal.ErrNoRun] if the tenant has no
// such run.
func (n *Tenant) Run(ctx context.Context, id string) (*journal.RunInfo, error) { return n.own(ctx, id) }

// Runs returns a page of the tenant's runs; see [Store]. It ignores the filter's tenant.
func (n *Tenant) Runs(ctx context.Context, f *Filter) ([]journal.RunInfo, *Position, error) {
	var own Filter
	if f != nil {
		own = *f
	}
	own.Tenant = n.id
	return n.s.Runs(ctx, &own)
}

// RunEvents returns events of one of the tenant's runs; see [journal.Journal]. It stops after the
// event that reaches maxBytes bytes.
func (n *Tenant) RunEvents(ctx context.Context, id string, after int64, limit, maxBytes int) ([]abi.Event, error) {
	return n.s.events(ctx, n.ownIn, id, after, limit, maxBytes)
}

// LoadRun returns one of the tenant's runs with its log. It fails with [journal.ErrNoRun] if the
// tenant has no such run.
func (n *Tenant) LoadRun(ctx context.Context, id string) (*journal.StoredRun, error) {
	return n.s.load(ctx, n.ownIn, id)
}

// CancelRun asks the process that executes one of the tenant's runs to cancel it; see [Store].
func (n *Tenant) CancelRun(ctx context.Context, id string) error {
	if _, err := n.own(ctx, id); err != nil {
		return err
	}
	return n.s.Cancel(ctx, id)
}

// AbandonRun finishes one of the tenant's runs that no process executes; see [Store]. It changes the
// run's thread, unless end is nil.
func (n *Tenant) AbandonRun(ctx context.Context, id, reason string, end *journal.ThreadEnd) error {
	if _, err := n.own(ctx, id); err != nil {
		return err
	}
	return n.s.abandon(ctx, id, reason, end)
}

// DeleteRun deletes one of the tenant's runs; see [Store].
func (n *Tenant) DeleteRun(ctx context.Context, id string) error {
	if _, err := n.own(ctx, id); err != nil {
		return err
	}
	return n.s.Delete(ctx, id)
}
