package client

import (
	"context"
	"net/http"

	"github.com/agent-runner/agent-runner/host/api"
)

// Aliases returns a page of the aliases of an agent, ordered by name, and the next page's cursor.
func (c *Client) Aliases(ctx context.Context, agent string, p Page) (aliases []api.Alias, next string, err error) {
	var out struct {
		Aliases []api.Alias `json:"aliases"`
		Next    string      `json:"next_cursor"`
	}
	err = c.get(ctx, path("/v1/agents/%s/aliases", agent), p.query(), &out)
	return out.Aliases, out.Next, err
}

// SetAlias makes alias a name of a version of an agent. The reason, which may be empty, is stored with
// the move.
func (c *Client) SetAlias(ctx context.Context, agent, alias string, version int64, reason string) (*api.Alias, error) {
	out := &api.Alias{}
	return out, c.call(ctx, &request{
		method: http.MethodPut,
		path:   path("/v1/agents/%s/aliases/%s", agent, alias),
		in: struct {
			Version int64  `json:"version"`
			Reason  string `json:"reason,omitempty"`
		}{version, reason},
	}, out)
}

// DeleteAlias deletes an alias of an agent.
func (c *Client) DeleteAlias(ctx context.Context, agent, alias string) error {
	return c.delete(ctx, path("/v1/agents/%s/aliases/%s", agent, alias))
}

// AliasMoves returns a page of the moves of an agent's alias, newest first, and the next page's cursor.
func (c *Client) AliasMoves(
	ctx context.Context,
	agent, alias string,
	p Page,
) (moves []api.AliasMove, next string, err error) {
	var out struct {
		Moves []api.AliasMove `json:"moves"`
		Next  string          `json:"next_cursor"`
	}
	err = c.get(ctx, path("/v1/agents/%s/aliases/%s/moves", agent, alias), p.query(), &out)
	return out.Moves, out.Next, err
}
