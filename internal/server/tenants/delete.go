package tenants

import (
	"context"
	"errors"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// endTimeout limits the time in which deleting a tenant waits for its runs to end. The poll
// intervals bound the time between two checks.
const (
	endTimeout      = 30 * time.Second
	minPollInterval = 50 * time.Millisecond
	maxPollInterval = 2 * time.Second
)

// delete deletes a tenant and its data. First it revokes the tenant's keys, so that no new runs
// start, and cancels its runs on all servers. It fails with a conflict if the runs do not end in
// time, or cannot all be deleted in time.
func (t *Tenants) delete(ctx context.Context, _ *httpapi.Caller, in *TenantPath) (*struct{}, error) {
	if in.Tenant == store.Operator {
		return nil, t.Store.DeleteTenant(ctx, in.Tenant) // fails: the operator's tenant cannot be deleted
	}
	tenant := t.Store.Tenant(in.Tenant)
	if err := tenant.RevokeKeys(ctx); err != nil {
		return nil, err
	}
	whole, cancel := context.WithTimeout(ctx, t.Timeouts.DeleteRuns)
	defer cancel()
	ended, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	for wait := minPollInterval; ; wait = min(2*wait, maxPollInterval) {
		err := t.Store.DeleteTenant(whole, in.Tenant)
		if err != nil && whole.Err() != nil && ctx.Err() == nil {
			return nil, httpapi.NewProblem(
				api.CodeConflict,
				"tenant %s has too many runs to delete in one request; its keys are revoked: delete it again to continue",
				in.Tenant,
			)
		}
		if !errors.Is(err, store.ErrInUse) {
			return nil, err
		}
		// Requests that were admitted before may still start runs, so each round looks for
		// them.
		if err := t.Runs.CancelAll(ctx, tenant); err != nil {
			return nil, err
		}
		select {
		case <-ended.Done():
			return nil, httpapi.NewProblem(
				api.CodeConflict,
				"tenant %s has runs that have not ended yet; its keys are revoked and its runs are being canceled: delete it again in a moment",
				in.Tenant,
			)
		case <-time.After(wait):
		}
	}
}
