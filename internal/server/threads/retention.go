package threads

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/tenants"
	"github.com/agent-runner/agent-runner/internal/store"
)

// expiryInterval is the time between two searches for threads whose retention has passed.
const expiryInterval = time.Hour

type (
	retentionInput       struct{ Body api.Retention }
	tenantRetentionInput struct {
		tenants.TenantPath
		Body api.Retention
	}
	retentionOutput struct{ Body api.Retention }
)

// retentionRoutes registers the endpoints that show and set the retention of threads.
func (x *Threads) retentionRoutes(rt *httpapi.Router) {
	const tag, own, of = "threads", "/v1/retention", "/v1/tenants/{tenant}/retention"
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-retention",
		Method:  "GET",
		Path:    own,
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Summary: "Show after how many days your tenant's threads are deleted",
	}, func(ctx context.Context, c *httpapi.Caller, _ *struct{}) (*retentionOutput, error) {
		return showRetention(ctx, c.Tenant)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "set-retention",
		Method:  "PUT",
		Path:    own,
		Scope:   httpapi.RetentionWrite,
		Tag:     tag,
		Summary: "Set after how many days your tenant's threads are deleted",
		About: `A thread is deleted, with its messages and runs, when no run and no change of a field has touched it for
that time, unless it has an unfinished run. A server looks for such threads every hour.`,
	}, func(ctx context.Context, c *httpapi.Caller, in *retentionInput) (*retentionOutput, error) {
		return setRetention(ctx, c.Tenant, &in.Body)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-tenant-retention",
		Method:  "GET",
		Path:    of,
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "Show after how many days a tenant's threads are deleted",
	}, func(ctx context.Context, _ *httpapi.Caller, in *tenants.TenantPath) (*retentionOutput, error) {
		if _, err := x.Store.TenantInfo(ctx, in.Tenant); err != nil {
			return nil, err
		}
		return showRetention(ctx, x.Store.Tenant(in.Tenant))
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "set-tenant-retention",
		Method:  "PUT",
		Path:    of,
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Set after how many days a tenant's threads are deleted",
	}, func(ctx context.Context, _ *httpapi.Caller, in *tenantRetentionInput) (*retentionOutput, error) {
		return setRetention(ctx, x.Store.Tenant(in.Tenant), &in.Body)
	})
}

func showRetention(ctx context.Context, t *store.Tenant) (*retentionOutput, error) {
	days, err := t.ThreadRetention(ctx)
	return &retentionOutput{api.Retention{ThreadDays: days}}, err
}

func setRetention(ctx context.Context, t *store.Tenant, r *api.Retention) (*retentionOutput, error) {
	if err := t.SetThreadRetention(ctx, r.ThreadDays); err != nil {
		return nil, err
	}
	return showRetention(ctx, t)
}

// Watch deletes the threads whose retention has passed, at once and every hour, until ctx is done.
func (x *Threads) Watch(ctx context.Context) {
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	for {
		n, err := x.Store.ExpireThreads(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			x.Logger.Error("delete old threads", "error", err)
		case n > 0:
			x.Logger.Info("old threads deleted", "threads", n)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
