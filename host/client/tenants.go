package client

import (
	"context"
	"net/http"
	"time"
)

// A Tenant is one as the operator sees it.
type Tenant struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Quota   TenantQuota `json:"quota"`
	Policy  Policy      `json:"policy"`
	Created time.Time   `json:"created"`
	Updated time.Time   `json:"updated"`
}

// A TenantQuota bounds a tenant; 0 is no limit.
type TenantQuota struct {
	ConcurrentRuns int64 `json:"concurrent_runs,omitempty"`
	RunsPerDay     int64 `json:"runs_per_day,omitempty"` // days are UTC's
	TokensPerDay   int64 `json:"tokens_per_day,omitempty"`
	FuelPerDay     int64 `json:"fuel_per_day,omitempty"`
	Modules        int64 `json:"modules,omitempty"`
	StorageBytes   int64 `json:"storage_bytes,omitempty"` // of modules, agents and secrets
	ValueBytes     int64 `json:"value_bytes,omitempty"`   // of durable values that modules keep; 67,108,864 when 0
	// MemoryBytes bounds what one server holds in memory for all runs. A quarter of
	// the server's memory for runs when 0.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// JournalBytes bounds the journals of the runs that are kept. 4 GiB when 0.
	JournalBytes int64 `json:"journal_bytes,omitempty"`
	// JournalBytesPerDay bounds what runs write to their journals. 2 GiB when 0.
	JournalBytesPerDay int64 `json:"journal_bytes_per_day,omitempty"`
	UploadBytes        int64 `json:"upload_bytes,omitempty"`        // of one module
	InputBytes         int64 `json:"input_bytes,omitempty"`         // of a request that begins a run, or goes on with one; 1 MiB when 0, 8 MiB at most
	Requests           int64 `json:"concurrent_requests,omitempty"` // on one server, streams included; 4096 when 0
	RequestsPerMin     int64 `json:"requests_per_minute,omitempty"` // on one server
}

// A Policy is what the operator allows a tenant.
type Policy struct {
	Grants   []string `json:"grants,omitempty"` // to modules; a trailing * stands for anything
	Models   []string `json:"models,omitempty"`
	Params   []string `json:"params,omitempty"` // of models, beside the usual ones
	Hosts    []string `json:"hosts,omitempty"`  // that modules and MCP servers may reach
	MaxSteps int      `json:"max_steps,omitempty"`
}

// A NewTenant is one to be made. Only its ID is needed.
type NewTenant struct {
	ID     string       `json:"id"`
	Name   string       `json:"name,omitempty"`
	Quota  *TenantQuota `json:"quota,omitempty"`
	Policy *Policy      `json:"policy,omitempty"`
}

// A TenantUpdate says what of a tenant changes; what is nil stays.
type TenantUpdate struct {
	Name   *string      `json:"name,omitempty"`
	Quota  *TenantQuota `json:"quota,omitempty"`  // takes the place of the whole
	Policy *Policy      `json:"policy,omitempty"` // takes the place of the whole
}

// CreateTenant makes a tenant.
func (c *Client) CreateTenant(ctx context.Context, t *NewTenant) (*Tenant, error) {
	out := &Tenant{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: "/v1/tenants", in: t}, out)
}

// Tenants returns a page of the tenants in the order of their ids, and the next page's
// cursor.
func (c *Client) Tenants(ctx context.Context, p Page) (tenants []*Tenant, next string, err error) {
	var out struct {
		Tenants []*Tenant `json:"tenants"`
		Next    string    `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/tenants", p.query(), &out)
	return out.Tenants, out.Next, err
}

// Tenant returns one.
func (c *Client) Tenant(ctx context.Context, id string) (*Tenant, error) {
	out := &Tenant{}
	return out, c.get(ctx, path("/v1/tenants/%s", id), nil, out)
}

// UpdateTenant changes one.
func (c *Client) UpdateTenant(ctx context.Context, id string, u *TenantUpdate) (*Tenant, error) {
	out := &Tenant{}
	return out, c.call(ctx, &request{method: http.MethodPatch, path: path("/v1/tenants/%s", id), in: u}, out)
}

// DeleteTenant forgets one, with everything that belongs to it.
func (c *Client) DeleteTenant(ctx context.Context, id string) error {
	return c.delete(ctx, path("/v1/tenants/%s", id))
}
