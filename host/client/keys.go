package client

import (
	"context"
	"net/http"
	"time"
)

// A Key is one of a tenant's. Secret is the key itself, which only the answer that
// makes it has.
type Key struct {
	ID      string     `json:"id"`
	Tenant  string     `json:"tenant"`
	Name    string     `json:"name"`
	Scopes  []string   `json:"scopes"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
	Used    *time.Time `json:"used,omitempty"` // last, to a minute
	Secret  string     `json:"secret,omitempty"`
}

// A NewKey is one to be made.
type NewKey struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes,omitempty"`     // all that may be given when empty
	ExpiresIn int64    `json:"expires_in,omitempty"` // seconds; never when 0
}

// keysOf is where the keys are: those of the caller's own tenant where none is named.
func keysOf(tenant string) string {
	if tenant == "" {
		return "/v1/keys"
	}
	return path("/v1/tenants/%s/keys", tenant)
}

// CreateKey makes a key of a tenant, or of the caller's own where none is named.
func (c *Client) CreateKey(ctx context.Context, tenant string, k *NewKey) (*Key, error) {
	out := &Key{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: keysOf(tenant), in: k}, out)
}

// Keys returns a page of a tenant's keys, the newest first, without their secrets, and the
// next page's cursor. An empty tenant is the caller's own.
func (c *Client) Keys(ctx context.Context, tenant string, p Page) (keys []*Key, next string, err error) {
	var out struct {
		Keys []*Key `json:"keys"`
		Next string `json:"next_cursor"`
	}
	err = c.get(ctx, keysOf(tenant), p.query(), &out)
	return out.Keys, out.Next, err
}

// RotateKey replaces a key by its id; the old one works on for grace, in whole
// seconds.
func (c *Client) RotateKey(ctx context.Context, tenant, id string, grace time.Duration) (*Key, error) {
	in := struct {
		Grace int64 `json:"grace,omitempty"`
	}{int64(grace / time.Second)}
	out := &Key{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: keysOf(tenant) + path("/%s/rotate", id), in: in}, out)
}

// RevokeKey ends a key by its id.
func (c *Client) RevokeKey(ctx context.Context, tenant, id string) error {
	return c.delete(ctx, keysOf(tenant)+path("/%s", id))
}
