package policy

import (
	"net/url"
	"slices"
	"strings"
)

// CoversHost reports whether the allowed hosts include the requested one. Both can be a host or a
// pattern such as *.example.com, with an optional port. Without a port, an allowed host includes
// only its scheme's default port; with the port *, it includes all ports. The allowed name *
// includes all names.
func CoversHost(allowed []string, asked string) bool {
	host, port := splitPort(strings.ToLower(asked))
	return slices.ContainsFunc(allowed, func(p string) bool {
		may, mayPort := splitPort(strings.ToLower(p))
		under, open := strings.CutPrefix(may, "*.")
		return (mayPort == port || mayPort == "*") &&
			(may == "*" || may == host || open && strings.HasSuffix(host, "."+under))
	})
}

// splitPort splits a host into its name and port. The port is empty for the scheme's default.
func splitPort(s string) (host, port string) {
	if at := strings.LastIndexByte(s, ':'); at > strings.LastIndexByte(s, ']') {
		return s[:at], s[at+1:]
	}
	return s, ""
}

// HostPort returns the host of a URL, and its port unless it is the scheme's default.
func HostPort(u *url.URL) string {
	if u.Port() == map[string]string{"https": "443", "http": "80"}[u.Scheme] {
		return strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	return u.Host
}

// PortHint returns an explanation of the rule for ports if the rejected host has a port, or else
// "".
func PortHint(asked string) string {
	if _, port := splitPort(asked); port == "" {
		return ""
	}
	return "; a host without a port is allowed at 443 of https and 80 of http alone, one with :* at all ports"
}
