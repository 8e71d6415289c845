package routes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A request is a request in progress through a route of a tenant's gateway.
type request struct {
	tenant string
	pins   []journal.Pin // modules of the route; nil until the route is built
	cancel context.CancelCauseFunc
}

// requests holds the requests through routes that are in progress on this server.
type requests struct {
	mu      sync.Mutex
	active  map[*request]struct{}
	tenants map[string]int // number of requests in progress, by tenant
}

func newRequests() *requests {
	return &requests{active: map[*request]struct{}{}, tenants: map[string]int{}}
}

// maxServerRequests is the number of concurrent requests through the routes of one server from
// which each tenant is limited to an equal share of it. Each request holds two connections.
const maxServerRequests = 4096

// enter adds a request of a tenant, which cancel cancels. It fails with an [*admission.QuotaError]
// if the tenant has limit requests in progress or, while the server has maxServerRequests, its
// share of these.
func (a *requests) enter(tenant string, limit int, cancel context.CancelCauseFunc) (*request, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.active) >= maxServerRequests {
		limit = min(limit, max(1, maxServerRequests/len(a.tenants)))
	}
	if a.tenants[tenant] >= limit {
		return nil, &admission.QuotaError{
			Quota:      "concurrent_runs",
			RetryAfter: time.Second,
			Reason: fmt.Sprintf("%d requests of this tenant pass through routes of this server, the limit; try again later",
				limit),
		}
	}
	q := &request{tenant: tenant, cancel: cancel}
	a.active[q] = struct{}{}
	a.tenants[tenant]++
	return q, nil
}

// leave removes a request.
func (a *requests) leave(q *request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.active, q)
	if a.tenants[q.tenant]--; a.tenants[q.tenant] == 0 {
		delete(a.tenants, q.tenant)
	}
}

// pin records the modules of a request's route.
func (a *requests) pin(q *request, pins []journal.Pin) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q.pins = pins
}

// stopBlocked cancels the requests whose route has a blocked module. It takes the results of
// [blocks.List.Current]: reasons has the operator's reasons for blocking, by digest.
func (a *requests) stopBlocked(reasons map[string]string, _ <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for q := range a.active {
		if why := runs.FindBlocked(q.pins, reasons); why != nil {
			q.cancel(why)
		}
	}
}

// names returns the tenants with requests in progress.
func (a *requests) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]string, 0, len(a.tenants))
	for name := range a.tenants {
		out = append(out, name)
	}
	return out
}

// stop cancels the requests of a tenant with the given cause.
func (a *requests) stop(tenant string, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for q := range a.active {
		if q.tenant == tenant {
			q.cancel(cause)
		}
	}
}

// tenantInterval is the time between two checks that the tenants of requests in progress exist.
const tenantInterval = time.Second

var errTenantDeleted = errors.New("the operator has deleted the tenant")

// Watch cancels requests with blocked modules, and requests of deleted tenants, until ctx is done.
func (s *Service) Watch(ctx context.Context) {
	ticker := time.NewTicker(tenantInterval)
	defer ticker.Stop()
	for {
		reasons, changed := s.o.Blocks.Current()
		s.active.stopBlocked(reasons, changed)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
			s.stopDeleted(ctx)
		}
	}
}

// stopDeleted cancels the requests of tenants that no longer exist.
func (s *Service) stopDeleted(ctx context.Context) {
	for _, name := range s.active.names() {
		if _, err := s.o.Store.TenantInfo(ctx, name); errors.Is(err, store.ErrNoTenant) {
			s.active.stop(name, errTenantDeleted)
		}
	}
}
