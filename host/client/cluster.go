package client

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"
)

// Nodes returns the servers that share the server's database, ordered by machine and name, as the
// server knows them. It returns none if the database is not shared.
func (c *Client) Nodes(ctx context.Context) ([]api.Node, error) {
	var out struct {
		Nodes []api.Node `json:"nodes"`
	}
	err := c.get(ctx, "/v1/cluster", nil, &out)
	return out.Nodes, err
}
