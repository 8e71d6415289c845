package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/agent-runner/agent-runner/host/api"
)

// CreateToken creates a token of an end user. The client needs a key of the tenant.
func (c *Client) CreateToken(ctx context.Context, t *api.CreateToken) (*api.Token, error) {
	out := &api.Token{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: "/v1/tokens", in: t}, out)
}

// Tokens returns a page of the tenant's tokens without their secrets, newest first, and the next
// page's cursor. If subject is not empty, it selects the tokens of one end user.
func (c *Client) Tokens(ctx context.Context, subject string, p Page) (tokens []*api.Token, next string, err error) {
	q := p.query()
	if subject != "" {
		q.Set("subject", subject)
	}
	var out struct {
		Tokens []*api.Token `json:"tokens"`
		Next   string       `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/tokens", q, &out)
	return out.Tokens, out.Next, err
}

// DeleteToken deletes the token with the given id. The token gives no access afterwards. Runs that it
// started continue.
func (c *Client) DeleteToken(ctx context.Context, id string) error {
	return c.delete(ctx, path("/v1/tokens/%s", id))
}

// DeleteTokens deletes the tokens of an end user as DeleteToken does, and returns their number.
func (c *Client) DeleteTokens(ctx context.Context, subject string) (int64, error) {
	out := &api.DeletedTokens{}
	err := c.call(
		ctx,
		&request{method: http.MethodDelete, path: "/v1/tokens", query: url.Values{"subject": {subject}}},
		out,
	)
	return out.Deleted, err
}

// corsOf returns the path of the origins of a tenant. If tenant is empty, it is the caller's own
// tenant.
func corsOf(tenant string) string {
	if tenant == "" {
		return "/v1/cors"
	}
	return path("/v1/tenants/%s/cors", tenant)
}

// CORS returns the origins whose pages may use the tokens of a tenant. If tenant is empty, it is the
// caller's own tenant.
func (c *Client) CORS(ctx context.Context, tenant string) (*api.CORS, error) {
	out := &api.CORS{}
	return out, c.get(ctx, corsOf(tenant), nil, out)
}

// SetCORS replaces the origins whose pages may use the tokens of a tenant. If tenant is empty, it is
// the caller's own tenant.
func (c *Client) SetCORS(ctx context.Context, tenant string, origins []string) (*api.CORS, error) {
	out := &api.CORS{}
	in := &api.CORS{Origins: append([]string{}, origins...)}
	return out, c.call(ctx, &request{method: http.MethodPut, path: corsOf(tenant), in: in}, out)
}
