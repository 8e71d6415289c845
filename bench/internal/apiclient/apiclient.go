// Package apiclient adds to the typed client of the HTTP API what several benchmarks do with it.
package apiclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

// Pool returns an HTTP client that keeps enough connections for thousands of concurrent requests.
func Pool() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096}}
}

// A Client is a client of one server with one key. It is safe for concurrent use.
type Client struct {
	*client.Client
	http *http.Client
}

// New returns a client of the server at an address, which sends its requests with h. The client does not
// retry a failed request for events.
func New(h *http.Client, server, key string) (*Client, error) {
	c, err := client.New(server, key, &client.Options{HTTP: h, Retry: time.Nanosecond})
	if err != nil {
		return nil, err
	}
	return &Client{c, h}, nil
}

// NewTenant creates a tenant with a quota and a key, and returns a client with this key. The tenant's
// policy allows all models and all grants. The client c must have an operator's key.
func (c *Client) NewTenant(ctx context.Context, id string, quota *api.TenantQuota) (*Client, error) {
	all := &api.Policy{Models: []string{"*"}, Grants: []string{"*"}}
	if _, err := c.CreateTenant(ctx, &api.CreateTenant{ID: id, Quota: quota, Policy: all}); err != nil {
		return nil, err
	}
	key, err := c.CreateKey(ctx, id, &api.CreateKey{Name: "bench"})
	if err != nil {
		return nil, err
	}
	return New(c.http, c.Server(), key.Secret)
}

// Upload uploads a Wasm module as version 1 of a name.
func (c *Client) Upload(ctx context.Context, name string, wasm []byte) error {
	_, err := c.PutModule(ctx, &client.Upload{
		Name: name, Version: "1", Type: "application/wasm", Body: bytes.NewReader(wasm), Size: int64(len(wasm)),
	})
	return err
}

// Start starts a run of an agent, and returns the run's id.
func (c *Client) Start(ctx context.Context, agent string) (id string, err error) {
	run, err := c.StartRun(ctx, &api.StartRun{Agent: agent, Input: input}, "")
	if err != nil {
		return "", err
	}
	return run.ID, nil
}

// input is the input of all runs.
const input = "Do it."

// Run runs an agent with one request, whose response has all events of the run. It fails unless the run
// ends with an answer.
func (c *Client) Run(ctx context.Context, agent string) error {
	body := fmt.Appendf(nil, `{"agent":%q,"input":%q}`, agent, input)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Server()+"/v1/runs", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.Key())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("a run of %s: status %d: %.300s", agent, res.StatusCode, b)
	}
	if !bytes.Contains(b, []byte(`"finish_reason":"stop"`)) {
		return fmt.Errorf("a run of %s did not finish: %.600s", agent, b[max(0, len(b)-600):])
	}
	return nil
}
