// Package egress sends the HTTP requests of modules: to granted hosts at addresses of the public
// Internet, with secrets that modules never see, and within limits of time and size.
//
// A request passes these checks, in this order:
//
//  1. Its URL and headers have a spelling that clients and servers cannot interpret differently.
//  2. Its host is granted to the entry, and Options.Hosts allows it.
//  3. Each secret in it may be sent to that host.
//  4. The address of the connection, after DNS, is public or in Options.Private.
//  5. Each redirect passes all of these checks.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// Defaults of [Options].
const (
	DefaultTimeout       = 30 * time.Second
	DefaultRequestBytes  = 1 << 20
	DefaultResponseBytes = 4 << 20
	DefaultConcurrent    = 64
)

const (
	maxRedirects       = 5
	maxServerHeader    = 64 << 10 // bytes of a response's header, before the limits for modules apply
	maxConnsPerHost    = 16
	idleConns          = 32
	idleTime           = 30 * time.Second
	connectTime        = 10 * time.Second
	userAgent          = "agent-runner"
	retryAfterInFlight = 1000 // milliseconds
)

// Options configures a [Client]. New copies it.
type Options struct {
	// Hosts are patterns of the hosts that requests may be sent to. A request also needs a grant
	// of its entry. Nil allows all granted hosts.
	Hosts []string
	// Private are ranges of private and reserved addresses that connections may use, for
	// development and for an operator's own services. Nil allows none.
	Private []netip.Prefix
	// Secrets are the secrets that requests can refer to.
	Secrets []Secret

	Timeout       time.Duration // limit of an exchange with its redirects; the default is DefaultTimeout
	RequestBytes  int           // maximum size of a request body; the default is DefaultRequestBytes
	ResponseBytes int           // maximum size of a response body; the default is DefaultResponseBytes
	Concurrent    int           // maximum number of requests in flight; the default is DefaultConcurrent
	ConnsPerHost  int           // maximum number of connections to a host; the default is 16

	// Resolver resolves names. The default is net.DefaultResolver.
	Resolver *net.Resolver
	// RootCAs verify the certificates of servers. The default is the system's roots.
	RootCAs *x509.CertPool
}

// A Client sends requests. It is safe for concurrent use.
type Client struct {
	hosts    []Pattern
	anyHost  bool
	private  []netip.Prefix
	secrets  map[string]*secret
	timeout  time.Duration
	request  int
	response int
	slots    chan struct{}

	transport *http.Transport
}

// New returns a client. If o is nil, all options have their defaults. New returns an error if a limit is negative, a
// pattern or a secret is invalid, or two secrets have the same name. The caller must call Close.
func New(o *Options) (*Client, error) {
	if o == nil {
		o = &Options{}
	}
	hosts, err := ParsePatterns(o.Hosts)
	if err != nil {
		return nil, err
	}
	c := &Client{hosts: hosts, anyHost: o.Hosts == nil, secrets: map[string]*secret{},
		private: append([]netip.Prefix(nil), o.Private...),
		timeout: cmp.Or(o.Timeout, DefaultTimeout), request: cmp.Or(o.RequestBytes, DefaultRequestBytes),
		response: cmp.Or(o.ResponseBytes, DefaultResponseBytes),
		slots:    make(chan struct{}, max(0, cmp.Or(o.Concurrent, DefaultConcurrent)))}
	if c.timeout < 0 || c.request < 0 || c.response < 0 || o.Concurrent < 0 || o.ConnsPerHost < 0 {
		return nil, errors.New("limits of outbound requests must be positive, or 0 for the defaults")
	}
	for i := range o.Secrets {
		k, err := o.Secrets[i].parse()
		if err != nil {
			return nil, err
		}
		if c.secrets[k.name] != nil {
			return nil, fmt.Errorf("secret %s is defined twice", k.name)
		}
		c.secrets[k.name] = k
	}
	c.transport = &http.Transport{
		Proxy:       nil, // a proxy would resolve and connect where nothing can be checked
		DialContext: (&net.Dialer{Timeout: connectTime, Resolver: o.Resolver, Control: c.control}).DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs,
		},
		TLSHandshakeTimeout:    connectTime,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // decompression could exceed the size limit
		MaxResponseHeaderBytes: maxServerHeader,
		MaxConnsPerHost:        cmp.Or(o.ConnsPerHost, maxConnsPerHost),
		MaxIdleConns:           idleConns,
		IdleConnTimeout:        idleTime,
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// isPrivate reports whether host is an address in Options.Private.
func (c *Client) isPrivate(host string) bool {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, p := range c.private {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Send sends a request and returns the response. granted lists patterns of the hosts that the
// module's entry may connect to; see [Pattern]. Send follows at most 5 redirects, each to a granted
// host. It waits while Options.Concurrent requests are in flight. The request's timeout_ms, if it has
// one, can only shorten Options.Timeout. The error is an *abi.Error without secrets; its code is
// [abi.CodeUnavailable] if ctx is done or the time is over.
func (c *Client) Send(ctx context.Context, r *abi.HTTPRequest, granted []string) (*abi.HTTPResponse, error) {
	hosts, err := ParsePatterns(granted)
	if err != nil {
		return nil, failed(abi.CodeDenied, "a grant of this entry: %v", err)
	}
	next, err := prepare(r)
	if err != nil {
		return nil, err
	}
	if len(next.body) > c.request {
		return nil, tooLarge("the request body", c.request)
	}
	timeout := c.timeout
	if r.TimeoutMS > 0 && r.TimeoutMS < timeout.Milliseconds() {
		timeout = time.Duration(r.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// Check hosts before waiting for a slot.
	if err := c.may(next.to, hosts); err != nil {
		return nil, err
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, &abi.Error{
			Code:         abi.CodeUnavailable,
			Retryable:    true,
			RetryAfterMS: retryAfterInFlight,
			Message:      "http: too many requests in flight",
		}
	}
	return c.exchange(ctx, next, hosts)
}

// may returns an error unless an endpoint matches one of the granted patterns and one of
// Options.Hosts. If Options.Hosts is nil, only granted counts.
func (c *Client) may(to endpoint, granted []Pattern) error {
	switch {
	case !anyMatch(granted, to):
		return failed(abi.CodeDenied, "http:%s is not granted to this entry; add grants: [http:%s] in agent.yaml", to, to)
	case !c.anyHost && !anyMatch(c.hosts, to):
		return failed(abi.CodeDenied, "%s is not among the hosts that the operator allows", to)
	}
	return nil
}

// exchange sends a request, follows at most maxRedirects redirects to granted hosts, and returns the
// last response.
func (c *Client) exchange(ctx context.Context, next *request, granted []Pattern) (*abi.HTTPResponse, error) {
	f := &filler{client: c}
	for hop := 0; ; hop++ {
		if err := c.may(next.to, granted); err != nil {
			if hop > 0 {
				return nil, failed(
					abi.CodeDenied,
					"it was redirected to %s: %s",
					next.to,
					strings.TrimPrefix(err.Error(), "http: "),
				)
			}
			return nil, err
		}
		f.to = next.to
		res, err := c.send(ctx, next, f)
		if err != nil {
			var known *abi.Error
			if errors.As(err, &known) {
				return nil, known
			}
			return nil, c.failure(ctx, next.to, err, f)
		}
		location := res.Header.Get("Location")
		if location == "" || !redirects(res.StatusCode) {
			defer res.Body.Close()
			return c.answer(ctx, res, next, hop, f)
		}
		res.Body.Close()
		if hop == maxRedirects {
			return nil, failed(abi.CodeLimit, "more than %d redirects", maxRedirects)
		}
		// redact replaces the values of secrets in the location with references to them. The next
		// request inserts the values again if they may be sent to its host. A reference that the
		// server wrote itself is rejected.
		if strings.Contains(location, opening) {
			return nil, failed(abi.CodeDenied, "%s redirects to a URL that asks for a secret", next.to)
		}
		if location, err = f.redact(location); err != nil {
			return nil, err
		}
		if next, err = next.redirected(res.StatusCode, location); err != nil {
			return nil, err
		}
	}
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently,
		http.StatusFound,
		http.StatusSeeOther,
		http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

// send fills in secrets and sends one request. It does not follow redirects.
func (c *Client) send(ctx context.Context, r *request, f *filler) (*http.Response, error) {
	address, err := f.url(r.url)
	if err != nil {
		return nil, err
	}
	body, err := f.fill("body", r.body, nil)
	if err != nil {
		return nil, err
	}
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, reader)
	if err != nil || req.URL.Host != r.to.String() {
		return nil, failed(abi.CodeInvalid, "url: it is malformed")
	}
	req.Header.Set("User-Agent", userAgent)
	agents := false
	for _, h := range r.headers {
		value, err := f.fill("header "+short(h.Name), h.Value, nil)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(h.Name, "User-Agent") && !agents {
			agents = true
			req.Header.Del("User-Agent")
		}
		req.Header.Add(h.Name, value)
	}
	if err := f.checkSlicing(r.headers); err != nil {
		return nil, err
	}
	return c.transport.RoundTrip(req)
}

func tooLarge(what string, limit int) error {
	return failed(abi.CodeLimit, "%s has more than %d bytes", what, limit)
}

// failure returns the error for a failed request, without details of the host's network.
func (c *Client) failure(ctx context.Context, to endpoint, err error, f *filler) error {
	var private *addressError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	out := &abi.Error{Code: abi.CodeUnavailable, Retryable: true}
	why := "the connection failed"
	var slow net.Error
	switch {
	case errors.As(err, &private):
		return failed(abi.CodeDenied, "%s: %s", to, private)
	case errors.Is(context.Cause(ctx), context.Canceled):
		why, out.Retryable = "canceled", false
	case ctx.Err() != nil, errors.As(err, &slow) && slow.Timeout():
		why = "it did not answer in time"
	case errors.As(err, &dns):
		why, out.Retryable = "no such host name", dns.IsTemporary
		if !dns.IsNotFound {
			why = "its name could not be resolved"
		}
	case errors.As(err, &certificate):
		why, out.Retryable = certificate.Err.Error(), false
	case strings.Contains(err.Error(), "server response headers exceeded"):
		return tooLarge("the response header", maxServerHeader)
	case errors.As(err, &record):
		why, out.Retryable = "the server does not speak https on that port", false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		why = "the response ended early"
	}
	if out.Message, err = f.redact(fmt.Sprintf("http: %s: %s", to, why)); err != nil {
		return err
	}
	return out
}
