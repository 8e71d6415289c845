package client

import (
	"context"
	"net/http"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
)

// keysOf returns the path of a tenant's keys. An empty tenant is the caller's own.
func keysOf(tenant string) string {
	if tenant == "" {
		return "/v1/keys"
	}
	return path("/v1/tenants/%s/keys", tenant)
}

// CreateKey creates a key for a tenant. An empty tenant is the caller's own.
func (c *Client) CreateKey(ctx context.Context, tenant string, k *api.CreateKey) (*api.Key, error) {
	out := &api.Key{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: keysOf(tenant), in: k}, out)
}

// Keys returns a page of a tenant's keys without their secrets, newest first, and the next
// page's cursor. An empty tenant is the caller's own.
func (c *Client) Keys(ctx context.Context, tenant string, p Page) (keys []*api.Key, next string, err error) {
	var out struct {
		Keys []*api.Key `json:"keys"`
		Next string     `json:"next_cursor"`
	}
	err = c.get(ctx, keysOf(tenant), p.query(), &out)
	return out.Keys, out.Next, err
}

// RotateKey replaces a key, given by its id, with a new one, and returns the new key. The old key
// remains valid for grace, which is rounded down to whole seconds. The server rejects more than 30
// days. An empty tenant is the caller's own.
func (c *Client) RotateKey(ctx context.Context, tenant, id string, grace time.Duration) (*api.Key, error) {
	in := struct {
		Grace int64 `json:"grace_seconds,omitempty"`
	}{int64(grace / time.Second)}
	out := &api.Key{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: keysOf(tenant) + path("/%s/rotate", id), in: in}, out)
}

// RevokeKey revokes the key with the given id. An empty tenant is the caller's own.
func (c *Client) RevokeKey(ctx context.Context, tenant, id string) error {
	return c.delete(ctx, keysOf(tenant)+path("/%s", id))
}
