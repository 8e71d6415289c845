package tenants

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/gateway/price"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Usages serves the usage of tenants.
type Usages struct {
	Store store.Store
	Now   func() time.Time
	// Currency is the currency of costs, such as USD; empty if nothing has a cost.
	Currency string
}

type (
	// UsageInput is embedded in the inputs of the routes that show usage.
	UsageInput struct {
		From string `query:"from" format:"date" doc:"The first day (UTC). Default: today."`
		To   string `query:"to" format:"date" doc:"The last day (UTC). Default: today."`
		httpapi.CursorInput
		Limit int `query:"limit" default:"10000" minimum:"1" maximum:"10000" doc:"Maximum number of rows."`
	}
	tenantUsageInput struct {
		TenantPath
		UsageInput
	}
	usageOutput struct{ Body api.Usage }
)

// Routes registers the endpoints that show usage.
func (u *Usages) Routes(rt *httpapi.Router) {
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-usage",
		Method:  "GET",
		Path:    "/v1/usage",
		Scope:   httpapi.UsageRead,
		Tag:     "usage",
		Summary: "Show your tenant's usage",
	}, func(ctx context.Context, c *httpapi.Caller, in *UsageInput) (*usageOutput, error) {
		return u.get(ctx, c.Tenant, in)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-tenant-usage",
		Method:  "GET",
		Path:    "/v1/tenants/{tenant}/usage",
		Scope:   httpapi.OperatorRead,
		Tag:     "usage",
		Summary: "Show a tenant's usage",
	}, func(ctx context.Context, _ *httpapi.Caller, in *tenantUsageInput) (*usageOutput, error) {
		if _, err := u.Store.TenantInfo(ctx, in.Tenant); err != nil {
			return nil, err
		}
		return u.get(ctx, u.Store.Tenant(in.Tenant), &in.UsageInput)
	})
}

// get returns a page of a tenant's usage, the total of all its pages, and the size of the tenant's
// journals.
func (u *Usages) get(ctx context.Context, t *store.Tenant, in *UsageInput) (*usageOutput, error) {
	today := store.Day(u.Now())
	from, to := in.From, in.To
	if from == "" {
		from = today
	}
	if to == "" {
		to = today
	}
	page, err := in.Page(httpapi.ListUsage, t.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	rows, next, err := t.Usage(ctx, from, to, page)
	if err != nil {
		return nil, err
	}
	out := &usageOutput{}
	out.Body.Currency = u.Currency
	if out.Body.Kept.JournalBytes, err = t.JournalBytes(ctx); err != nil {
		return nil, err
	}
	out.Body.Rows = make([]api.UsageRow, len(rows))
	for i, row := range rows {
		out.Body.Rows[i] = showUsage(&row)
	}
	out.Body.NextCursor = httpapi.NextCursor(httpapi.ListUsage, t.ID(), next)
	total, err := t.UsageTotal(ctx, from, to)
	out.Body.Total = showUsage(&total)
	return out, err
}

func showUsage(u *store.Usage) api.UsageRow {
	return api.UsageRow{
		Day:              u.Day,
		Agent:            u.Agent,
		Module:           u.Module,
		Runs:             u.Runs,
		PromptTokens:     u.PromptTokens,
		CompletionTokens: u.CompletionTokens,
		Fuel:             u.Fuel,
		WallMS:           u.WallMS,
		Calls:            u.Calls,
		Cost:             float64(u.CostNano) / price.Nano,
		JournalBytes:     u.JournalBytes,
	}
}
