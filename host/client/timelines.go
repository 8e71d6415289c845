package client

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"
)

// RunTrace returns the timelines of a finished or paused run: one for each time that it was started,
// resumed or taken over. The server returns at most 16 MiB of them; later timelines are missing.
func (c *Client) RunTrace(ctx context.Context, id string) ([]*api.Timeline, error) {
	var out struct {
		Timelines []*api.Timeline `json:"timelines"`
	}
	err := c.get(ctx, path("/v1/runs/%s/trace", id), nil, &out)
	return out.Timelines, err
}
