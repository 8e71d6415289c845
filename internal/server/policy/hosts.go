package policy

import (
	"net/url"
	"slices"
	"strings"
)

// covered reports whether hosts that are allowed have all of what is asked
// for: a host, or *. and one. Ports count: what has one is allowed as it is.
func CoversHost(allowed []string, asked string) bool {
	host, port := splitPort(strings.ToLower(asked))
	return slices.ContainsFunc(allowed, func(p string) bool {
		may, mayPort := splitPort(strings.ToLower(p))
		under, open := strings.CutPrefix(may, "*.")
		return (mayPort == port || mayPort == "*") && (may == "*" || may == host || open && strings.HasSuffix(host, "."+under))
	})
}

// splitPort takes the port from a host, which has none if it means its scheme's.
func splitPort(s string) (host, port string) {
	if at := strings.LastIndexByte(s, ':'); at > strings.LastIndexByte(s, ']') {
		return s[:at], s[at+1:]
	}
	return s, ""
}

// hostOf is the host of an address, with its port where that is not its scheme's.
func HostPort(u *url.URL) string {
	if u.Port() == map[string]string{"https": "443", "http": "80"}[u.Scheme] {
		return strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	return u.Host
}

// aboutPorts says why a host may be allowed and is not.
func PortHint(asked string) string {
	if _, port := splitPort(asked); port == "" {
		return ""
	}
	return "; a host without a port is allowed at 443 of https and 80 of http alone, one with :* at all ports"
}
