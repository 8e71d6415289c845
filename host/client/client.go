// Package client is a client of the agent-runner server's HTTP API, which the server describes
// at /openapi.json. It has one method for each operation under /v1, except those of OpenAI's
// and AG-UI's protocols. The package imports no package of the server.
//
//	c, err := client.New("https://agents.example.com", key, nil)
//	run, err := c.StartRun(ctx, &api.StartRun{Agent: "support", Input: "hello"}, "")
//	for event, err := range c.Follow(ctx, run.ID, 0) { … }
//
// Package api defines the bodies of requests and responses. If the server rejects a request,
// the error is an [*api.Problem]. If the server is unreachable, the error is an
// [*UnreachableError].
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxResponse is the maximum size of a response, in bytes.
const maxResponse = 256 << 20

// Options configure a client. They are copied.
type Options struct {
	// HTTP sends the requests. By default, the client creates its own, without a time limit
	// for whole requests. Redirects are not followed, so that the key is sent nowhere else.
	HTTP *http.Client
	// UserAgent is the User-Agent header. The default is "agent-runner".
	UserAgent string
	// Retry is the time for which [Client.Follow] retries an unreachable server. The default
	// is one minute.
	Retry time.Duration
}

// A Client sends requests to one server with one key. It is safe for concurrent use.
type Client struct {
	server string
	key    string
	http   http.Client
	agent  string
	retry  time.Duration
}

// New creates a client for the server at an address such as https://agents.example.com. The key has
// the form ar_…; it may be empty for public operations. If o is nil, all options have their defaults.
// New fails if the address is not an http or https URL of scheme, host and path, or if the key has
// spaces, control characters or characters that are not ASCII. It does not connect.
func New(server, key string, o *Options) (*Client, error) {
	address, err := addressOf(server)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	if strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("the key contains invalid characters")
	}
	c := &Client{server: address, key: key, agent: o.UserAgent, retry: o.Retry}
	if o.HTTP != nil {
		c.http = *o.HTTP
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if c.agent == "" {
		c.agent = "agent-runner"
	}
	if c.retry == 0 {
		c.retry = time.Minute
	}
	return c, nil
}

// addressOf normalizes the address of a server: lowercase host, no trailing slash. It returns an
// error unless the address consists of scheme, host and path.
func addressOf(server string) (string, error) {
	u, err := url.Parse(strings.TrimRight(server, "/"))
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Opaque != "":
		return "", fmt.Errorf(
			"%.200q is not the address of a server; want one such as https://agents.example.com or http://127.0.0.1:8080",
			server,
		)
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("the address of the server has more than scheme, host and path; want %s://%s", u.Scheme, u.Host)
	}
	u.Host = strings.ToLower(u.Host)
	return u.String(), nil
}

// Server returns the server's address, with a scheme and without a trailing slash.
func (c *Client) Server() string { return c.server }

// Key returns the key of the client.
func (c *Client) Key() string { return c.key }

// An UnreachableError reports that a server did not respond, or that the connection broke.
type UnreachableError struct {
	Server string
	Err    error
}

// Error returns the server's address and the cause.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the server at %s cannot be reached: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// A request is an HTTP request to send. At most one of body and in is set.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         io.Reader // the body, unless in is set
	in           any       // sent as JSON unless nil
	length       int64     // length of body in bytes; 0 if unknown
}

// path formats a path with escaped segments.
func path(format string, segments ...string) string {
	escaped := make([]any, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return fmt.Sprintf(format, escaped...)
}

// send sends a request, and returns a response with a status below 300, whose body the caller must
// close. For any other status, the error is an [*api.Problem].
func (c *Client) send(ctx context.Context, r *request) (*http.Response, error) {
	body := r.body
	if r.in != nil {
		b, err := json.Marshal(r.in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.server+r.path, body)
	if err != nil {
		return nil, err
	}
	if r.length > 0 {
		req.ContentLength = r.length
	}
	req.URL.RawQuery = r.query.Encode()
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.agent)
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if r.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		return nil, c.problemOf(res)
	}
	return res, nil
}

// unreachable wraps an error of sending a request or reading its response in an
// [*UnreachableError]. If ctx is done, it returns the cause of ctx instead.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &UnreachableError{c.server, err}
}

// call sends a request, and decodes the response into out unless out is nil.
func (c *Client) call(ctx context.Context, r *request, out any) error {
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return c.read(ctx, res, out)
}

// read decodes a JSON response of at most maxResponse bytes into out unless out is nil.
func (c *Client) read(ctx context.Context, res *http.Response, out any) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	switch {
	case err != nil:
		return c.unreachable(ctx, fmt.Errorf("the response is incomplete: %w", err))
	case len(b) > maxResponse:
		return fmt.Errorf("the response of %s is larger than %d bytes", c.server, maxResponse)
	case out == nil:
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "application/json" {
		return fmt.Errorf("%s is not an agent-runner server: it returns %.80q instead of JSON; check the address",
			c.server, kind)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("decode response of %s, which may be of another version: %w", c.server, err)
	}
	return nil
}

func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, &request{method: http.MethodGet, path: path, query: query}, out)
}

func (c *Client) delete(ctx context.Context, path string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: path}, nil)
}
