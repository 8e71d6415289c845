package egress

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// FuzzHeader checks that an accepted header is a single line that affects neither the framing nor
// the routing of the request.
func FuzzHeader(f *testing.F) {
	for _, s := range []string{
		"Host", "host ", "content-Length", "X-Forwarded-For", "a\r\nHost", "Proxy-Authorization", "Te\u017f",
		"\u212Aeep-Alive", "Authorization",
	} {
		f.Add(s, "a")
		f.Add("X-A", s)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		if checkHeaders([]abi.HTTPHeader{{Name: name, Value: value}}) != nil {
			return
		}
		h := http.Header{}
		h.Add(name, value)
		var b strings.Builder
		require.NoError(t, h.Write(&b))
		require.Equal(t, 1, strings.Count(b.String(), "\n"), "%q", b.String())
		for _, own := range []string{
			"Host", "Content-Length", "Transfer-Encoding", "Connection", "Proxy-Authorization", "X-Forwarded-For", "Te",
			"Upgrade",
		} {
			require.Empty(t, h.Get(own))
		}
	})
}

// FuzzRedirect checks that each redirect leads to the endpoint that was checked, and sends no
// credentials to another server.
func FuzzRedirect(f *testing.F) {
	for _, s := range []string{
		"/", "//evil.example", "https://evil.example/", "http://a.example/", "https://a.example@evil.example/",
		"https:evil.example", "\\\\evil.example", "{{secret:K}}", "?a", "https://a.example:443/", "https://A.EXAMPLE/x",
		"javascript:x",
	} {
		f.Add(s, 302)
		f.Add(s, 307)
	}
	f.Fuzz(func(t *testing.T, location string, status int) {
		r, err := prepare(
			&abi.HTTPRequest{URL: "https://a.example/x", Method: "POST", Body: "b", Headers: []abi.HTTPHeader{
				{Name: "Authorization", Value: "x"}, {Name: "X-Key", Value: "{{secret:K}}"}, {Name: "X-A", Value: "b"}}},
		)
		require.NoError(t, err)
		next, err := r.redirected(status, location)
		if err != nil {
			return
		}
		again, to, err := checkURL(next.url)
		require.NoError(t, err)
		require.Equal(t, next.url, again)
		require.Equal(t, next.to, to)
		require.Equal(t, "https", to.scheme)
		if to != r.to {
			for _, h := range next.headers {
				require.Equal(t, "X-A", h.Name)
			}
		}
	})
}

// FuzzAddress checks that no spelling of a private address can be connected to.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{
		"127.0.0.1:80", "[::1]:80", "[::ffff:10.0.0.1]:80", "[64:ff9b::a00:1]:80", "[2002:7f00:1::]:80", "[fe80::1%eth0]:80",
		"0.0.0.0:80", "8.8.8.8:80", "169.254.169.254:80",
	} {
		f.Add(s)
	}
	c, err := New(nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, address string) {
		if c.control("tcp", address, nil) != nil {
			return
		}
		p, err := netip.ParseAddrPort(address)
		if err != nil {
			return // not a valid port
		}
		a := p.Addr().Unmap()
		require.False(
			t,
			a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified(),
			address,
		)
	})
}
