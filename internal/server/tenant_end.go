package server

import (
	"context"
	"errors"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// How long the runs of a tenant that is deleted have for their end, and after what time is
// looked whether they came to it: at first, and at most.
const (
	endTime  = 30 * time.Second
	endFirst = 50 * time.Millisecond
	endMost  = 2 * time.Second
)

// errDeleted is why runs end whose tenant the operator deletes.
var errDeleted = errors.New("the operator deletes its tenant")

// delete forgets a tenant. First its keys are revoked, so that it begins nothing any more,
// and runs that are under way are canceled, on all servers.
func (t *tenants) delete(ctx context.Context, _ *Caller, in *TenantPath) (*struct{}, error) {
	if in.Tenant == store.Operator {
		return nil, t.store.DeleteTenant(ctx, in.Tenant) // which refuses it
	}
	tenant := t.store.Tenant(in.Tenant)
	if err := tenant.RevokeKeys(ctx); err != nil {
		return nil, err
	}
	whole, cancel := context.WithTimeout(ctx, t.runs.server.times.remove)
	defer cancel()
	ended, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	for wait := endFirst; ; wait = min(2*wait, endMost) {
		err := t.store.DeleteTenant(whole, in.Tenant)
		if err != nil && whole.Err() != nil && ctx.Err() == nil {
			return nil, problem(codeConflict, "tenant %s has too many runs to delete in one request; its keys are revoked: delete it again to continue", in.Tenant)
		}
		if !errors.Is(err, store.ErrInUse) {
			return nil, err
		}
		// Requests that were let in before may begin runs for a moment: they are looked for again.
		if err := t.runs.cancelAll(ctx, tenant); err != nil {
			return nil, err
		}
		select {
		case <-ended.Done():
			return nil, problem(codeConflict, "tenant %s has runs that have not ended yet; its keys are revoked and its runs are being canceled: delete it again in a moment", in.Tenant)
		case <-time.After(wait):
		}
	}
}

// cancelAll cancels a tenant's runs: those that go on here at once, others when those who
// run them look.
func (r *runs) cancelAll(ctx context.Context, t *store.Tenant) error {
	for _, l := range r.lives.all() {
		if l.tenant == t.ID() {
			l.cancel(errDeleted)
		}
	}
	list, _, err := t.Runs(ctx, &store.Filter{Status: journal.StatusRunning, Page: store.Page{Limit: 500}})
	if err != nil {
		return err
	}
	for i := range list {
		if r.lives.get(t.ID(), list[i].ID) != nil {
			continue
		}
		if err := t.CancelRun(ctx, list[i].ID); err != nil && !errors.Is(err, journal.ErrNoRun) && !errors.Is(err, journal.ErrFinished) {
			return err
		}
	}
	return nil
}
