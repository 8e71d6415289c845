package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/agent-runner/agent-runner/host/api"
)

// An Upload is a module to upload.
type Upload struct {
	Name    string // optional
	Version string // version of the module; the default is the version that the module reports
	// Type is the media type: application/wasm, application/typescript,
	// application/javascript or application/vnd.extism.manifest+json.
	Type string
	Body io.Reader
	Size int64 // size of Body in bytes; 0 if unknown
	// Progress, if not nil, is called for every progress event of the upload.
	Progress func(api.Progress)
}

// PutModule uploads a module, and returns its description once it is compiled and stored. If the server
// rejects the module, the error is an [*api.Problem] with the code [api.CodeRefused].
func (c *Client) PutModule(ctx context.Context, u *Upload) (*api.Module, error) {
	q := url.Values{}
	for name, value := range map[string]string{"name": u.Name, "version": u.Version} {
		if value != "" {
			q.Set(name, value)
		}
	}
	r := &request{method: http.MethodPut, path: "/v1/modules", query: q, body: u.Body, length: u.Size,
		header: http.Header{"Content-Type": {u.Type}, "Accept": {"text/event-stream"}}}
	res, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	events := newReader(res.Body)
	for {
		e, err := events.next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("the upload was interrupted; try again: %w", err)
		}
		if err != nil {
			return nil, c.unreachable(ctx, err)
		}
		if m, err := u.handle(e); m != nil || err != nil {
			return m, err
		}
	}
}

// handle handles an event of an upload. If the event ends the upload, handle returns the module
// or the server's problem; otherwise it returns nil for both. It fails if it cannot decode the
// event.
func (u *Upload) handle(e *serverEvent) (*api.Module, error) {
	switch e.kind {
	case "progress":
		var p api.Progress
		if err := json.Unmarshal(e.data, &p); err != nil {
			return nil, fmt.Errorf("decode progress of the upload: %w", err)
		}
		if u.Progress != nil {
			u.Progress(p)
		}
	case "problem":
		p := &api.Problem{}
		if err := json.Unmarshal(e.data, p); err != nil {
			return nil, fmt.Errorf("decode the reason why the upload failed: %w", err)
		}
		return nil, p
	case "module":
		m := &api.Module{}
		if err := json.Unmarshal(e.data, m); err != nil {
			return nil, fmt.Errorf("the module was stored, but its description cannot be decoded: %w", err)
		}
		return m, nil
	}
	return nil, nil
}

// Modules returns a page of the modules, newest first, and the next page's cursor.
func (c *Client) Modules(ctx context.Context, p Page) (modules []*api.Module, next string, err error) {
	var out struct {
		Modules []*api.Module `json:"modules"`
		Next    string        `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/modules", p.query(), &out)
	return out.Modules, out.Next, err
}

// Module returns a module by its digest, its name, or name@version.
func (c *Client) Module(ctx context.Context, ref string) (*api.Module, error) {
	out := &api.Module{}
	return out, c.get(ctx, path("/v1/modules/%s", ref), nil, out)
}

// DeleteModule deletes a module and its names. ref is as for [Client.Module]. It fails if the gateway's
// newest version uses the module, or a version of an agent that is the newest, or that an alias or an
// active rollout refers to.
func (c *Client) DeleteModule(ctx context.Context, ref string) error {
	return c.delete(ctx, path("/v1/modules/%s", ref))
}
