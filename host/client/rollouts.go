package client

import (
	"context"
	"net/http"

	"github.com/agent-runner/agent-runner/host/api"
)

// StartRollout starts a rollout of a version of an agent to an alias.
func (c *Client) StartRollout(ctx context.Context, agent string, s *api.StartRollout) (*api.Rollout, error) {
	out := &api.Rollout{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: path("/v1/agents/%s/rollouts", agent), in: s}, out)
}

// Rollouts returns a page of the rollouts of an agent, newest first, and the next page's cursor. If agent is empty,
// it returns the active rollouts of all agents.
func (c *Client) Rollouts(ctx context.Context, agent string, p Page) (rollouts []api.Rollout, next string, err error) {
	var out struct {
		Rollouts []api.Rollout `json:"rollouts"`
		Next     string        `json:"next_cursor"`
	}
	at := "/v1/rollouts"
	if agent != "" {
		at = path("/v1/agents/%s/rollouts", agent)
	}
	err = c.get(ctx, at, p.query(), &out)
	return out.Rollouts, out.Next, err
}

// Rollout returns a rollout with its figures.
func (c *Client) Rollout(ctx context.Context, id string) (*api.Rollout, error) {
	out := &api.Rollout{}
	return out, c.get(ctx, path("/v1/rollouts/%s", id), nil, out)
}

// RolloutHistory returns the figures of a rollout over time.
func (c *Client) RolloutHistory(ctx context.Context, id string) (*api.RolloutHistory, error) {
	out := &api.RolloutHistory{}
	return out, c.get(ctx, path("/v1/rollouts/%s/history", id), nil, out)
}

// PauseRollout stops the steps of a rollout, which keeps its percentage.
func (c *Client) PauseRollout(ctx context.Context, id, reason string) (*api.Rollout, error) {
	return c.changeRollout(ctx, id, "pause", reason)
}

// ResumeRollout resumes a paused rollout.
func (c *Client) ResumeRollout(ctx context.Context, id, reason string) (*api.Rollout, error) {
	return c.changeRollout(ctx, id, "resume", reason)
}

// PromoteRollout moves the alias to the canary at once, and ends the rollout.
func (c *Client) PromoteRollout(ctx context.Context, id, reason string) (*api.Rollout, error) {
	return c.changeRollout(ctx, id, "promote", reason)
}

// AbortRollout ends a rollout. All runs then get the stable version.
func (c *Client) AbortRollout(ctx context.Context, id, reason string) (*api.Rollout, error) {
	return c.changeRollout(ctx, id, "abort", reason)
}

func (c *Client) changeRollout(ctx context.Context, id, what, reason string) (*api.Rollout, error) {
	out := &api.Rollout{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: path("/v1/rollouts/%s/"+what, id), in: struct {
		Reason string `json:"reason,omitempty"`
	}{reason}}, out)
}
