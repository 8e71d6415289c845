package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An Agent is one version of an agent.
type Agent struct {
	Name     string    `json:"name"`
	Version  int64     `json:"version"` // starts at 1
	Created  time.Time `json:"created"`
	Modules  []Entry   `json:"modules"`
	Warnings []string  `json:"warnings"`
	YAML     string    `json:"yaml"`
}

// An Entry is a module of an agent.
type Entry struct {
	At     string `json:"at"` // the path in the file, such as middlewares[0]
	Name   string `json:"name"`
	Module string `json:"module"` // as the file names it
	Digest string `json:"digest"`
}

// PutAgent creates or updates an agent from an agent.yaml, which names modules of the server
// by digest or name. If the file equals the newest version, no new version is created.
func (c *Client) PutAgent(ctx context.Context, name string, yaml []byte) (*Agent, error) {
	out := &Agent{}
	return out, c.call(ctx, &request{method: http.MethodPut, path: path("/v1/agents/%s", name), body: bytes.NewReader(yaml),
		header: http.Header{"Content-Type": {"application/yaml"}}}, out)
}

// Agent returns a version of an agent, or the newest one if version is 0.
func (c *Client) Agent(ctx context.Context, name string, version int64) (*Agent, error) {
	q := url.Values{}
	if version != 0 {
		q.Set("version", strconv.FormatInt(version, 10))
	}
	out := &Agent{}
	return out, c.get(ctx, path("/v1/agents/%s", name), q, out)
}

// Agents returns a page of the newest versions of agents in the order of their names, and
// the next page's cursor.
func (c *Client) Agents(ctx context.Context, p Page) (agents []*Agent, next string, err error) {
	var out struct {
		Agents []*Agent `json:"agents"`
		Next   string   `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/agents", p.query(), &out)
	return out.Agents, out.Next, err
}

// DeleteAgent deletes an agent with all its versions, but keeps its runs.
func (c *Client) DeleteAgent(ctx context.Context, name string) error {
	return c.delete(ctx, path("/v1/agents/%s", name))
}
