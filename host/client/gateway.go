package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/agent-runner/agent-runner/host/api"
)

// PutGateway creates or updates the tenant's gateway from a gateway.yaml, which names modules of the
// server by digest or name. If the file equals the newest version, no new version is created.
func (c *Client) PutGateway(ctx context.Context, yaml []byte) (*api.Gateway, error) {
	out := &api.Gateway{}
	return out, c.call(
		ctx,
		&request{method: http.MethodPut, path: "/v1/gateway", body: bytes.NewReader(yaml),
			header: http.Header{"Content-Type": {"application/yaml"}}},
		out,
	)
}

// Gateway returns a version of the tenant's gateway, or the newest one if version is 0.
func (c *Client) Gateway(ctx context.Context, version int64) (*api.Gateway, error) {
	q := url.Values{}
	if version != 0 {
		q.Set("version", strconv.FormatInt(version, 10))
	}
	out := &api.Gateway{}
	return out, c.get(ctx, "/v1/gateway", q, out)
}

// DeleteGateway deletes the tenant's gateway with all its versions.
func (c *Client) DeleteGateway(ctx context.Context) error {
	return c.delete(ctx, "/v1/gateway")
}
