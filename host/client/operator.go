package client

import (
	"context"
	"net/http"
	"time"
)

// A Block is a module that the operator keeps from being called.
type Block struct {
	Digest  string    `json:"digest"`
	Reason  string    `json:"reason"`
	Created time.Time `json:"created"`
}

// Block stops a module from being called, everywhere, within a second.
func (c *Client) Block(ctx context.Context, digest, reason string) error {
	in := struct {
		Reason string `json:"reason"`
	}{reason}
	return c.call(ctx, &request{method: http.MethodPut, path: path("/v1/blocks/%s", digest), in: in}, nil)
}

// Unblock lets a module be called again.
func (c *Client) Unblock(ctx context.Context, digest string) error {
	return c.delete(ctx, path("/v1/blocks/%s", digest))
}

// Blocks returns a page of the blocked modules in the order of their digests, and the next
// page's cursor.
func (c *Client) Blocks(ctx context.Context, p Page) (blocks []Block, next string, err error) {
	var out struct {
		Blocks []Block `json:"blocks"`
		Next   string  `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/blocks", p.query(), &out)
	return out.Blocks, out.Next, err
}

// A Secret is what is told of one.
type Secret struct {
	Name    string    `json:"name"`
	Updated time.Time `json:"updated"`
}

// SetSecret keeps a secret. It is never shown again.
func (c *Client) SetSecret(ctx context.Context, name, value string) error {
	in := struct {
		Value string `json:"value"`
	}{value}
	return c.call(ctx, &request{method: http.MethodPut, path: path("/v1/secrets/%s", name), in: in}, nil)
}

// Secrets returns a page of the secrets in the order of their names, without their values,
// and the next page's cursor.
func (c *Client) Secrets(ctx context.Context, p Page) (secrets []Secret, next string, err error) {
	var out struct {
		Secrets []Secret `json:"secrets"`
		Next    string   `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/secrets", p.query(), &out)
	return out.Secrets, out.Next, err
}

// DeleteSecret forgets one.
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	return c.delete(ctx, path("/v1/secrets/%s", name))
}

// Usage is what a tenant used.
type Usage struct {
	Total UsageRow   `json:"total"` // the sum of all pages' rows; its day, agent and module are empty
	Rows  []UsageRow `json:"rows"`
	Next  string     `json:"next_cursor,omitempty"` // the next page's cursor
	Kept  Kept       `json:"kept"`                  // now, whatever the days
}

// Kept is what a tenant keeps, as its quotas count it.
type Kept struct {
	JournalBytes int64 `json:"journal_bytes"` // of the journals of its runs
}

// A UsageRow is what one agent, or one of its modules, used on a day (UTC).
type UsageRow struct {
	Day              string `json:"day,omitempty"`
	Agent            string `json:"agent,omitempty"`
	Module           string `json:"module,omitempty"` // its digest; empty for the agent itself
	Runs             int64  `json:"runs"`             // that began
	PromptTokens     int64  `json:"prompt_tokens"`
	CompletionTokens int64  `json:"completion_tokens"`
	Fuel             int64  `json:"fuel"`
	WallMS           int64  `json:"wall_ms"`
	Calls            int64  `json:"calls"`         // of the model, or of the module's hooks
	JournalBytes     int64  `json:"journal_bytes"` // that the runs wrote to the journal
}

// Usage returns a page of what a tenant used from one day to another, such as 2006-01-02. An
// empty tenant is the caller's own, an empty day is today.
func (c *Client) Usage(ctx context.Context, tenant, from, to string, p Page) (*Usage, error) {
	at := "/v1/usage"
	if tenant != "" {
		at = path("/v1/tenants/%s/usage", tenant)
	}
	q := p.query()
	for name, day := range map[string]string{"from": from, "to": to} {
		if day != "" {
			q.Set(name, day)
		}
	}
	out := &Usage{}
	return out, c.get(ctx, at, q, out)
}

// A QuarantinedRun is a run that no server resumes, since it seems to have ended the server
// that ran it.
type QuarantinedRun struct {
	Run         string    `json:"run"`
	Tenant      string    `json:"tenant"`
	Node        string    `json:"node"`
	Reason      string    `json:"reason"`
	HeldBytes   int64     `json:"held_bytes"`
	ShareBytes  int64     `json:"share_bytes"`
	UsedBytes   int64     `json:"used_bytes"`
	LimitBytes  int64     `json:"limit_bytes"`
	OutOfMemory bool      `json:"out_of_memory"`
	Created     time.Time `json:"created"`
}

// Quarantined returns a page of the quarantined runs in the order of their ids, and the next
// page's cursor.
func (c *Client) Quarantined(ctx context.Context, p Page) (runs []QuarantinedRun, next string, err error) {
	var out struct {
		Runs []QuarantinedRun `json:"runs"`
		Next string           `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/quarantine", p.query(), &out)
	return out.Runs, out.Next, err
}

// ReleaseRun lets a quarantined run be resumed.
func (c *Client) ReleaseRun(ctx context.Context, run string) error {
	return c.delete(ctx, path("/v1/quarantine/%s", run))
}
