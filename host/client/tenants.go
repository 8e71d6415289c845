package client

import (
	"context"
	"net/http"

	"github.com/agent-runner/agent-runner/host/api"
)

// CreateTenant creates a tenant, and returns the tenant.
func (c *Client) CreateTenant(ctx context.Context, t *api.CreateTenant) (*api.Tenant, error) {
	out := &api.Tenant{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: "/v1/tenants", in: t}, out)
}

// Tenants returns a page of the tenants, ordered by id, and the next page's cursor.
func (c *Client) Tenants(ctx context.Context, p Page) (tenants []*api.Tenant, next string, err error) {
	var out struct {
		Tenants []*api.Tenant `json:"tenants"`
		Next    string        `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/tenants", p.query(), &out)
	return out.Tenants, out.Next, err
}

// Tenant returns the tenant with the given id.
func (c *Client) Tenant(ctx context.Context, id string) (*api.Tenant, error) {
	out := &api.Tenant{}
	return out, c.get(ctx, path("/v1/tenants/%s", id), nil, out)
}

// UpdateTenant changes the fields of a tenant that are not nil in u, and returns the tenant.
func (c *Client) UpdateTenant(ctx context.Context, id string, u *api.TenantUpdate) (*api.Tenant, error) {
	out := &api.Tenant{}
	return out, c.call(ctx, &request{method: http.MethodPatch, path: path("/v1/tenants/%s", id), in: u}, out)
}

// DeleteTenant deletes a tenant and everything that belongs to it. The server first revokes the tenant's
// keys and cancels its runs. DeleteTenant fails with the code [api.CodeConflict] if the runs cannot all
// be ended and deleted in time; a repeated call continues. It always fails for the operator's tenant.
func (c *Client) DeleteTenant(ctx context.Context, id string) error {
	return c.delete(ctx, path("/v1/tenants/%s", id))
}
