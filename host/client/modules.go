package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// A Module is a module of a tenant.
type Module struct {
	Digest  string       `json:"digest"`
	Kind    string       `json:"kind"` // wasm or script
	Size    int64        `json:"size"` // in bytes
	Names   []ModuleName `json:"names"`
	Created time.Time    `json:"created"`
	Blocked string       `json:"blocked,omitempty"` // the operator's reason for blocking it
	About   About        `json:"about"`
}

// A ModuleName is a name and a version of a module.
type ModuleName struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// About describes a module and its capabilities.
type About struct {
	Name         string          `json:"name,omitempty"`
	Version      string          `json:"version,omitempty"`
	Description  string          `json:"description,omitempty"`
	Transport    string          `json:"transport"`
	Hooks        []string        `json:"hooks"`
	Powers       []Power         `json:"powers"`
	Grants       []string        `json:"grants"`
	Messages     string          `json:"messages"`
	ConfigSchema json.RawMessage `json:"config_schema,omitempty"`
	Limits       ModuleLimits    `json:"limits"`
	Warnings     []string        `json:"warnings"`
}

// A Power is a capability of a module.
type Power struct {
	Name  string `json:"name"`
	Does  string `json:"does"`
	Grant string `json:"grant,omitempty"` // the required grant, if any
}

// ModuleLimits holds the default limits of a module.
type ModuleLimits struct {
	MemoryBytes int64  `json:"memory_bytes"`
	Fuel        int64  `json:"fuel"`
	RunFuel     int64  `json:"run_fuel"`
	Timeout     string `json:"timeout"`
	InputBytes  int    `json:"input_bytes"`
	OutputBytes int    `json:"output_bytes"`
	HostCalls   int    `json:"host_calls"`
}

// An Upload is a module to upload.
type Upload struct {
	Name    string // optional
	Version string // of Name; defaults to the version that the module reports
	// Type is the media type: application/wasm, application/typescript,
	// application/javascript or application/vnd.extism.manifest+json.
	Type string
	Body io.Reader
	Size int64 // of Body in bytes, if known
	// Progress, if not nil, is called at every stage.
	Progress func(Progress)
}

// A Progress is a stage of an upload: receiving, received, waiting, compiling,
// described.
type Progress struct {
	Stage  string `json:"stage"`
	Bytes  int64  `json:"bytes,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// PutModule uploads a module. A module that the server refuses is a [*Problem] with
// the code [Refused].
func (c *Client) PutModule(ctx context.Context, u *Upload) (*Module, error) {
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
			err = fmt.Errorf("the upload broke off; try again: %w", err)
		}
		if err != nil {
			return nil, c.unreachable(ctx, err)
		}
		if m, err := u.take(e); m != nil || err != nil {
			return m, err
		}
	}
}

// take is what comes of an event.
func (u *Upload) take(e *serverEvent) (*Module, error) {
	switch e.kind {
	case "progress":
		var p Progress
		if err := json.Unmarshal(e.data, &p); err != nil {
			return nil, fmt.Errorf("the progress of the upload cannot be read: %w", err)
		}
		if u.Progress != nil {
			u.Progress(p)
		}
	case "problem":
		p := &Problem{}
		if err := json.Unmarshal(e.data, p); err != nil {
			return nil, fmt.Errorf("the upload failed, and the reason cannot be read: %w", err)
		}
		return nil, p
	case "module":
		m := &Module{}
		if err := json.Unmarshal(e.data, m); err != nil {
			return nil, fmt.Errorf("the module was kept, and what it is cannot be read: %w", err)
		}
		return m, nil
	}
	return nil, nil
}

// Modules returns a page of the modules, the newest first, and the next page's cursor.
func (c *Client) Modules(ctx context.Context, p Page) (modules []*Module, next string, err error) {
	var out struct {
		Modules []*Module `json:"modules"`
		Next    string    `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/modules", p.query(), &out)
	return out.Modules, out.Next, err
}

// Module returns one by its digest, its name, or name@version.
func (c *Client) Module(ctx context.Context, ref string) (*Module, error) {
	out := &Module{}
	return out, c.get(ctx, path("/v1/modules/%s", ref), nil, out)
}

// DeleteModule forgets one and its names.
func (c *Client) DeleteModule(ctx context.Context, ref string) error {
	return c.delete(ctx, path("/v1/modules/%s", ref))
}
