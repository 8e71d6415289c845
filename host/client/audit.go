package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
)

// An AuditFilter selects records of an audit log. Empty fields select all records.
type AuditFilter struct {
	Actor, Action, Target string
	From, To              time.Time // From is included, To is not
}

// query adds the filter to the query parameters of a page.
func (f *AuditFilter) query(q url.Values) url.Values {
	for name, value := range map[string]string{"actor": f.Actor, "action": f.Action, "target": f.Target} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	return q
}

// Audit returns a page of a tenant's audit log, newest first, and the next page's cursor. An empty
// tenant is the caller's own.
func (c *Client) Audit(
	ctx context.Context,
	tenant string,
	f AuditFilter,
	p Page,
) (records []api.AuditRecord, next string, err error) {
	at := "/v1/audit"
	if tenant != "" {
		at = path("/v1/tenants/%s/audit", tenant)
	}
	var out struct {
		Records []api.AuditRecord `json:"records"`
		Next    string            `json:"next_cursor"`
	}
	err = c.get(ctx, at, f.query(p.query()), &out)
	return out.Records, out.Next, err
}

// ExportAudit writes the caller's audit log to w, newest first, as lines of JSON.
func (c *Client) ExportAudit(ctx context.Context, f AuditFilter, w io.Writer) error {
	res, err := c.send(ctx, &request{method: http.MethodGet, path: "/v1/audit/export", query: f.query(url.Values{})})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		return c.unreachable(ctx, err)
	}
	return nil
}
