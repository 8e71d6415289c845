package client

import (
	"context"
	"io"
	"net/http"

	"github.com/agent-runner/agent-runner/host/api"
)

// A ThreadFilter selects threads. The zero value selects all.
type ThreadFilter struct {
	Agent   string
	Subject string // the end user to whom the threads belong
	// Metadata selects the threads whose metadata has this entry, as name:value.
	Metadata string
}

// CreateThread creates a thread. A run continues the thread if [Client.StartRun] receives the
// thread's id.
func (c *Client) CreateThread(ctx context.Context, t *api.CreateThread) (*api.Thread, error) {
	out := &api.Thread{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: "/v1/threads", in: t}, out)
}

// Threads returns a page of the threads that a filter selects, newest first, and the next page's
// cursor.
func (c *Client) Threads(ctx context.Context, f ThreadFilter, p Page) (threads []*api.Thread, next string, err error) {
	q := p.query()
	for name, value := range map[string]string{"agent": f.Agent, "subject": f.Subject, "metadata": f.Metadata} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var out struct {
		Threads []*api.Thread `json:"threads"`
		Next    string        `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/threads", q, &out)
	return out.Threads, out.Next, err
}

// Thread returns a thread.
func (c *Client) Thread(ctx context.Context, id string) (*api.Thread, error) {
	out := &api.Thread{}
	return out, c.get(ctx, path("/v1/threads/%s", id), nil, out)
}

// UpdateThread changes the fields of a thread that are not nil in u, and returns the thread.
func (c *Client) UpdateThread(ctx context.Context, id string, u *api.ThreadUpdate) (*api.Thread, error) {
	out := &api.Thread{}
	return out, c.call(ctx, &request{method: http.MethodPatch, path: path("/v1/threads/%s", id), in: u}, out)
}

// DeleteThread deletes a thread with its messages and runs. It fails while a run is in progress.
func (c *Client) DeleteThread(ctx context.Context, id string) error {
	return c.delete(ctx, path("/v1/threads/%s", id))
}

// ThreadMessages returns a page of the messages of a thread, oldest first, and the next page's
// cursor.
func (c *Client) ThreadMessages(
	ctx context.Context,
	id string,
	p Page,
) (messages []api.ThreadMessage, next string, err error) {
	var out struct {
		Messages []api.ThreadMessage `json:"messages"`
		Next     string              `json:"next_cursor"`
	}
	err = c.get(ctx, path("/v1/threads/%s/messages", id), p.query(), &out)
	return out.Messages, out.Next, err
}

// ForkThread creates a thread with copies of messages of another one: all of them, or those up to a
// message or the end of a run.
func (c *Client) ForkThread(ctx context.Context, id string, f *api.ForkThread) (*api.Thread, error) {
	out := &api.Thread{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: path("/v1/threads/%s/fork", id), in: f}, out)
}

// ExportThread writes a thread with its runs and messages to w, as lines of JSON: see
// [api.ThreadRecord].
func (c *Client) ExportThread(ctx context.Context, id string, w io.Writer) error {
	res, err := c.send(ctx, &request{method: http.MethodGet, path: path("/v1/threads/%s/export", id)})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		return c.unreachable(ctx, err)
	}
	return nil
}

// retentionPath returns the path of a tenant's retention. If tenant is empty, it is the path of the
// retention of the caller's own tenant.
func retentionPath(tenant string) string {
	if tenant == "" {
		return "/v1/retention"
	}
	return path("/v1/tenants/%s/retention", tenant)
}

// Retention returns how long the threads of a tenant are stored. If tenant is empty, it is the
// caller's own tenant.
func (c *Client) Retention(ctx context.Context, tenant string) (*api.Retention, error) {
	out := &api.Retention{}
	return out, c.get(ctx, retentionPath(tenant), nil, out)
}

// SetRetention sets how long the threads of a tenant are stored. If tenant is empty, it is the
// caller's own tenant.
func (c *Client) SetRetention(ctx context.Context, tenant string, r *api.Retention) (*api.Retention, error) {
	out := &api.Retention{}
	return out, c.call(ctx, &request{method: http.MethodPut, path: retentionPath(tenant), in: r}, out)
}
