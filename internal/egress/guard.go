package egress

import (
	"errors"
	"io"
	"net"
	"net/http"
)

// Guard returns what sends requests of the host's own, to addresses that come
// from somebody else: of MCP servers, say. They go to the client's hosts at public
// addresses and at those that it allows. There are no limits of size or time, and
// no secrets are filled in. Redirects are the caller's, and each is checked.
func (c *Client) Guard() http.RoundTripper { return &guard{c} }

type guard struct{ client *Client }

// RoundTrip sends a request.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	refuse := func(err error) (*http.Response, error) {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	u := *req.URL
	u.User, u.Fragment = nil, "" // which say nothing of where it goes
	_, to, err := checkURL(u.String())
	if err != nil {
		return refuse(err)
	}
	if err := g.client.may(to, []Pattern{{sub: true, port: "*"}}); err != nil {
		return refuse(err)
	}
	res, err := g.client.transport.RoundTrip(req)
	if err != nil {
		return nil, withoutAddresses(err)
	}
	res.Body = nameless{res.Body}
	return res, nil
}

// A nameless body's errors say nothing of addresses.
type nameless struct{ io.ReadCloser }

func (b nameless) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, withoutAddresses(err)
}

// withoutAddresses is an error of a connection without the addresses of either end, and
// of the server that was asked for them: whoever chose the name would learn what it
// stands for in the operator's network.
func withoutAddresses(err error) error {
	var private *addressError
	var op *net.OpError
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case errors.As(err, &private):
		return private
	case !errors.As(err, &op):
		return err
	}
	out := *op
	out.Source, out.Addr = nil, nil
	if dns := (*net.DNSError)(nil); errors.As(op.Err, &dns) {
		asked := *dns
		asked.Server = ""
		out.Err = &asked
	}
	return &out
}
