// Package client speaks with a server of agent-runner over HTTP, as its document
// at /openapi.json says: one method for each operation of a resource.
//
//	c, err := client.New("https://agents.example.com", key, nil)
//	run, err := c.StartRun(ctx, &client.StartRun{Agent: "support", Input: "hello"}, "")
//	for event, err := range c.Follow(ctx, run.ID, 0) { … }
//
// What the server refuses is a [*Problem]; a server that cannot be reached is an
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

// maxAnswer is how large an answer may be, in bytes.
const maxAnswer = 256 << 20

// Options make a client. They are copied.
type Options struct {
	// HTTP sends the requests; nil: a client of its own, without a time limit for a
	// whole request. Redirects are not followed: the key goes to no other place.
	HTTP *http.Client
	// UserAgent is what requests say sends them; agent-runner when empty.
	UserAgent string
	// Retry is how long a server that cannot be reached is tried again by
	// [Client.Follow]; a minute when 0.
	Retry time.Duration
}

// A Client sends requests to one server, with one key. Many goroutines may use it
// at once.
type Client struct {
	server string
	key    string
	http   http.Client
	agent  string
	retry  time.Duration
}

// New makes a client of the server at an address such as https://agents.example.com.
// The key is one of the server's, ar_…; it may be empty for what is for everybody.
func New(server, key string, o *Options) (*Client, error) {
	address, err := Address(server)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	if strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("the key has characters that no key has")
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

// Address is the address of a server as it is written in one way: with its scheme,
// and without a slash at the end.
func Address(server string) (string, error) {
	u, err := url.Parse(strings.TrimRight(server, "/"))
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Opaque != "":
		return "", fmt.Errorf("%.200q is no address of a server; want one such as https://agents.example.com or http://127.0.0.1:8080", server)
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("the address of the server has more than scheme, host and path; want %s://%s", u.Scheme, u.Host)
	}
	u.Host = strings.ToLower(u.Host)
	return u.String(), nil
}

// Server is the server's address.
func (c *Client) Server() string { return c.server }

// Key is the key that requests are sent with.
func (c *Client) Key() string { return c.key }

// An UnreachableError says that a server did not answer, or broke off.
type UnreachableError struct {
	Server string
	Err    error
}

// Error tells the server and why.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the server at %s cannot be reached: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// A request is one to be sent.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         io.Reader // or:
	in           any       // sent as JSON, unless it is nil
	length       int64     // of body, if that is known
}

// path puts segments into an address.
func path(format string, segments ...string) string {
	escaped := make([]any, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return fmt.Sprintf(format, escaped...)
}

// send sends a request, and returns an answer that is no error. The caller closes
// its body.
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

// unreachable is why no answer came; the caller's own doing is told as it is.
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

// call sends a request, and reads its answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, r *request, out any) error {
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return c.read(ctx, res, out)
}

// read reads an answer of JSON.
func (c *Client) read(ctx context.Context, res *http.Response, out any) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.unreachable(ctx, fmt.Errorf("its answer broke off: %w", err))
	case len(b) > maxAnswer:
		return fmt.Errorf("the answer of %s is larger than %d bytes", c.server, maxAnswer)
	case out == nil:
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "application/json" {
		return fmt.Errorf("%s answers, but not as a server of agent-runner does (%.80q instead of JSON); is the address right?", c.server, kind)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("the answer of %s cannot be read; it may be of another version: %w", c.server, err)
	}
	return nil
}

func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, &request{method: http.MethodGet, path: path, query: query}, out)
}

func (c *Client) delete(ctx context.Context, path string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: path}, nil)
}
