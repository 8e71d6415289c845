package egress

import "net/http"

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
	return g.client.transport.RoundTrip(req)
}
