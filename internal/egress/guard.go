package egress

import (
	"errors"
	"io"
	"net"
	"net/http"
)

// Guard returns a RoundTripper for the host's own requests to addresses that others choose, such as
// those of MCP servers. A request is allowed only if its host is one of [Options.Hosts], or Hosts
// is nil, and each address that the client connects to is public or in [Options.Private]. The
// RoundTripper limits neither the size of bodies nor the time for an answer, and fills in no secrets.
// The caller follows redirects; each is checked.
func (c *Client) Guard() http.RoundTripper { return &guard{c} }

// A guard is the RoundTripper that [Client.Guard] returns.
type guard struct{ client *Client }

// RoundTrip checks and sends a request.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	refuse := func(err error) (*http.Response, error) {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	u := *req.URL
	u.User, u.Fragment = nil, "" // they do not affect the destination
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

// nameless wraps the body of a response and removes addresses from its errors.
type nameless struct{ io.ReadCloser }

func (b nameless) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, withoutAddresses(err)
}

// withoutAddresses removes from an error the addresses of both ends of a connection and of the DNS
// server. Otherwise the party that chose a name would learn how it resolves in the operator's
// network.
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
