package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An Agent is a version of one.
type Agent struct {
	Name     string    `json:"name"`
	Version  int64     `json:"version"` // from 1
	Created  time.Time `json:"created"`
	Modules  []Entry   `json:"modules"`
	Warnings []string  `json:"warnings"`
	YAML     string    `json:"yaml"`
}

// An Entry is a module of an agent.
type Entry struct {
	At     string `json:"at"` // where it stands in the file
	Name   string `json:"name"`
	Module string `json:"module"` // as the file says it
	Digest string `json:"digest"`
}

// PutAgent keeps an agent.yaml, whose modules are digests or names of modules that
// the server has. What the newest version is already makes no other version.
func (c *Client) PutAgent(ctx context.Context, name string, yaml []byte) (*Agent, error) {
	out := &Agent{}
	return out, c.call(ctx, &request{method: http.MethodPut, path: path("/v1/agents/%s", name), body: bytes.NewReader(yaml),
		header: http.Header{"Content-Type": {"application/yaml"}}}, out)
}

// Agent returns a version of one; the newest when version is 0.
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

// DeleteAgent forgets one, with all its versions. Its runs stay.
func (c *Client) DeleteAgent(ctx context.Context, name string) error {
	return c.delete(ctx, path("/v1/agents/%s", name))
}
