package client

import (
	"context"
	"net/http"

	"github.com/agent-runner/agent-runner/host/api"
)

// StartReplay starts a replay of stored runs of an agent, and returns without waiting for its end.
func (c *Client) StartReplay(ctx context.Context, agent string, s *api.StartReplay) (*api.Replay, error) {
	out := &api.Replay{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: path("/v1/agents/%s/replays", agent), in: s}, out)
}

// Replays returns a page of the replays of an agent, or of all agents if agent is empty, newest first, and the
// next page's cursor.
func (c *Client) Replays(ctx context.Context, agent string, p Page) (replays []api.Replay, next string, err error) {
	var out struct {
		Replays []api.Replay `json:"replays"`
		Next    string       `json:"next_cursor"`
	}
	at := "/v1/replays"
	if agent != "" {
		at = path("/v1/agents/%s/replays", agent)
	}
	err = c.get(ctx, at, p.query(), &out)
	return out.Replays, out.Next, err
}

// Replay returns a replay with its progress.
func (c *Client) Replay(ctx context.Context, id string) (*api.Replay, error) {
	out := &api.Replay{}
	return out, c.get(ctx, path("/v1/replays/%s", id), nil, out)
}

// ReplayedRuns returns a page of the results of a replay, and the next page's cursor. If outcome is not
// empty, it returns the runs with that outcome.
func (c *Client) ReplayedRuns(
	ctx context.Context,
	id, outcome string,
	p Page,
) (runs []api.ReplayedRun, next string, err error) {
	q := p.query()
	if outcome != "" {
		q.Set("outcome", outcome)
	}
	var out struct {
		Runs []api.ReplayedRun `json:"runs"`
		Next string            `json:"next_cursor"`
	}
	err = c.get(ctx, path("/v1/replays/%s/runs", id), q, &out)
	return out.Runs, out.Next, err
}

// CancelReplay requests the cancellation of a replay, and returns the replay. Its results so far remain.
func (c *Client) CancelReplay(ctx context.Context, id string) (*api.Replay, error) {
	out := &api.Replay{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: path("/v1/replays/%s/cancel", id)}, out)
}

// DeleteReplay deletes a replay that has ended, with its results.
func (c *Client) DeleteReplay(ctx context.Context, id string) error {
	return c.delete(ctx, path("/v1/replays/%s", id))
}
