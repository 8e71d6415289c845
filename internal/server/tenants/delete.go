package tenants

import (
	"context"
	"errors"
	"time"

	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// How long the runs of a tenant that is deleted have for their end, and after what time is
// looked whether they came to it: at first, and at most.
const (
	endTimeout      = 30 * time.Second
	minPollInterval = 50 * time.Millisecond
	maxPollInterval = 2 * time.Second
)

// delete forgets a tenant. First its keys are revoked, so that it begins nothing any more,
// and runs that are under way are canceled, on all servers.
func (t *Tenants) delete(ctx context.Context, _ *httpapi.Caller, in *TenantPath) (*struct{}, error) {
	if in.Tenant == store.Operator {
		return nil, t.Store.DeleteTenant(ctx, in.Tenant) // which refuses it
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
			return nil, httpapi.NewProblem(httpapi.CodeConflict, "tenant %s has too many runs to delete in one request; its keys are revoked: delete it again to continue", in.Tenant)
		}
		if !errors.Is(err, store.ErrInUse) {
			return nil, err
		}
		// Requests that were let in before may begin runs for a moment: they are looked for again.
		if err := t.Runs.CancelAll(ctx, tenant); err != nil {
			return nil, err
		}
		select {
		case <-ended.Done():
			return nil, httpapi.NewProblem(httpapi.CodeConflict, "tenant %s has runs that have not ended yet; its keys are revoked and its runs are being canceled: delete it again in a moment", in.Tenant)
		case <-time.After(wait):
		}
	}
}
