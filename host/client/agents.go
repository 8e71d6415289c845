package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/agent-runner/agent-runner/host/api"
)

// PutAgent creates or updates an agent from an agent.yaml, which names modules of the server
// by digest or name. If the file equals the newest version, no new version is created.
func (c *Client) PutAgent(ctx context.Context, name string, yaml []byte) (*api.Agent, error) {
	out := &api.Agent{}
	return out, c.call(
		ctx,
		&request{method: http.MethodPut, path: path("/v1/agents/%s", name), body: bytes.NewReader(yaml),
			header: http.Header{"Content-Type": {"application/yaml"}}},
		out,
	)
}

// CheckAgent checks an agent.yaml as PutAgent does, without storing it. An invalid file is not an
// error: the result lists what is wrong.
func (c *Client) CheckAgent(ctx context.Context, name string, yaml []byte) (*api.AgentCheck, error) {
	out := &api.AgentCheck{}
	return out, c.call(
		ctx,
		&request{method: http.MethodPost, path: path("/v1/agents/%s/check", name), body: bytes.NewReader(yaml),
			header: http.Header{"Content-Type": {"application/yaml"}}},
		out,
	)
}

// DryRun replays a finished run with an agent.yaml that is not stored, and returns the differences.
// name is the name of the file's agent, which need not exist. If name is empty, it is the name of the
// run's agent. DryRun fails if the file is invalid.
func (c *Client) DryRun(ctx context.Context, run, name string, yaml []byte) (*api.ReplayedRun, error) {
	q := url.Values{}
	if name != "" {
		q.Set("agent", name)
	}
	out := &api.ReplayedRun{}
	return out, c.call(
		ctx,
		&request{method: http.MethodPost, path: path("/v1/runs/%s/dry-run", run), query: q,
			body: bytes.NewReader(yaml), header: http.Header{"Content-Type": {"application/yaml"}}},
		out,
	)
}

// Agent returns a version of an agent, or the newest one if version is 0.
func (c *Client) Agent(ctx context.Context, name string, version int64) (*api.Agent, error) {
	q := url.Values{}
	if version != 0 {
		q.Set("version", strconv.FormatInt(version, 10))
	}
	out := &api.Agent{}
	return out, c.get(ctx, path("/v1/agents/%s", name), q, out)
}

// Agents returns a page of the newest versions of agents, ordered by name, and the next
// page's cursor.
func (c *Client) Agents(ctx context.Context, p Page) (agents []*api.Agent, next string, err error) {
	var out struct {
		Agents []*api.Agent `json:"agents"`
		Next   string       `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/agents", p.query(), &out)
	return out.Agents, out.Next, err
}

// DeleteAgent deletes an agent with all its versions, but keeps its runs.
func (c *Client) DeleteAgent(ctx context.Context, name string) error {
	return c.delete(ctx, path("/v1/agents/%s", name))
}
