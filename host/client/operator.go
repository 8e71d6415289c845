package client

import (
	"context"
	"net/http"

	"github.com/agent-runner/agent-runner/host/api"
)

// Block blocks a module for all tenants. It takes effect on every server within a second.
func (c *Client) Block(ctx context.Context, digest, reason string) error {
	in := struct {
		Reason string `json:"reason"`
	}{reason}
	return c.call(ctx, &request{method: http.MethodPut, path: path("/v1/blocks/%s", digest), in: in}, nil)
}

// Unblock allows a module to be called again.
func (c *Client) Unblock(ctx context.Context, digest string) error {
	return c.delete(ctx, path("/v1/blocks/%s", digest))
}

// Blocks returns a page of the blocked modules, ordered by digest, and the next page's
// cursor.
func (c *Client) Blocks(ctx context.Context, p Page) (blocks []api.Block, next string, err error) {
	var out struct {
		Blocks []api.Block `json:"blocks"`
		Next   string      `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/blocks", p.query(), &out)
	return out.Blocks, out.Next, err
}

// SetSecret stores or replaces a secret of the key's tenant. The server never returns its
// value.
func (c *Client) SetSecret(ctx context.Context, name, value string) error {
	in := struct {
		Value string `json:"value"`
	}{value}
	return c.call(ctx, &request{method: http.MethodPut, path: path("/v1/secrets/%s", name), in: in}, nil)
}

// Secrets returns a page of the secrets without their values, ordered by name, and the next
// page's cursor.
func (c *Client) Secrets(ctx context.Context, p Page) (secrets []api.Secret, next string, err error) {
	var out struct {
		Secrets []api.Secret `json:"secrets"`
		Next    string       `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/secrets", p.query(), &out)
	return out.Secrets, out.Next, err
}

// DeleteSecret deletes a secret of the key's tenant.
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	return c.delete(ctx, path("/v1/secrets/%s", name))
}

// Usage returns a page of a tenant's usage from one day to another, both included. Days have the form
// 2006-01-02. An empty day means today. An empty tenant is the caller's own.
func (c *Client) Usage(ctx context.Context, tenant, from, to string, p Page) (*api.Usage, error) {
	at := "/v1/usage"
	if tenant != "" {
		at = path("/v1/tenants/%s/usage", tenant)
	}
	q := p.query()
	for name, day := range map[string]string{"from": from, "to": to} {
		if day != "" {
			q.Set(name, day)
		}
	}
	out := &api.Usage{}
	return out, c.get(ctx, at, q, out)
}

// Quarantined returns a page of the quarantined runs, ordered by id, and the next page's
// cursor.
func (c *Client) Quarantined(ctx context.Context, p Page) (runs []api.QuarantinedRun, next string, err error) {
	var out struct {
		Runs []api.QuarantinedRun `json:"runs"`
		Next string               `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/quarantine", p.query(), &out)
	return out.Runs, out.Next, err
}

// ReleaseRun allows a quarantined run to be resumed.
func (c *Client) ReleaseRun(ctx context.Context, run string) error {
	return c.delete(ctx, path("/v1/quarantine/%s", run))
}
