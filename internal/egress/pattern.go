package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/truncate"
)

// A Pattern matches hosts and their ports:
//
//	api.example.com        the host at the ports 443 of https and 80 of http
//	api.example.com:8443   the host at this port
//	api.example.com:*      the host at any port
//	*.example.com          all names below example.com, but not example.com
//	*                      any host
//	192.0.2.7              an IPv4 address
//	[2001:db8::7]:8443     an IPv6 address at this port
//
// Without a port, every pattern matches only the ports 443 of https and 80 of http.
type Pattern struct {
	host string // name or address; for a pattern that begins with a star, the text after the star
	sub  bool   // whether the pattern begins with a star, so that it matches names that end with host
	port string // port number; empty for the scheme's default port, "*" for any port
}

// ParsePattern parses a pattern, and returns an error if it is malformed. Names are case-insensitive.
// Internationalized names must be in their ASCII form.
func ParsePattern(s string) (Pattern, error) {
	host, port, err := splitPort(strings.ToLower(s))
	if err != nil {
		return Pattern{}, err
	}
	p := Pattern{port: port}
	if host == "*" {
		p.sub = true
		return p, nil
	}
	rest, sub := strings.CutPrefix(host, "*.")
	if p.host, err = checkHost(rest); err != nil {
		return Pattern{}, err
	}
	if sub {
		if _, err := netip.ParseAddr(p.host); err == nil {
			return Pattern{}, errors.New("an address cannot have subdomains")
		}
		p.sub, p.host = true, "."+p.host
	}
	return p, nil
}

// ParsePatterns parses a list of patterns. The error names the malformed pattern.
func ParsePatterns(list []string) ([]Pattern, error) {
	var out []Pattern
	for _, s := range list {
		p, err := ParsePattern(s)
		if err != nil {
			return nil, fmt.Errorf("host %q: %w", short(s), err)
		}
		out = append(out, p)
	}
	return out, nil
}

// splitPort splits the port, a number or a star, from a host that may be an IPv6 address in
// brackets.
func splitPort(s string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		at := strings.IndexByte(rest, ']')
		if at < 0 {
			return "", "", errors.New("an address begins with [ and does not end with ]")
		}
		host, rest = rest[:at], rest[at+1:]
		if !strings.Contains(host, ":") {
			return "", "", errors.New("only IPv6 addresses belong in brackets")
		}
		if rest == "" {
			return host, "", nil
		}
		if rest[0] != ':' {
			return "", "", errors.New("want a port after ]")
		}
		port = rest[1:]
	} else {
		var has bool
		if host, port, has = strings.Cut(s, ":"); !has {
			return host, "", nil
		}
		if strings.Contains(port, ":") {
			return "", "", errors.New("an IPv6 address needs brackets: [::1]:8080")
		}
	}
	if port == "*" {
		return host, port, nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
		return "", "", fmt.Errorf("%q is not a port", short(port))
	}
	return host, port, nil
}

const (
	maxHost  = 253
	maxLabel = 63
)

// checkHost returns the canonical spelling of a host: a lower-case name or an address. It rejects
// spellings that only some resolvers take for an address, such as 0x7f.1, 017700000001 and 127.1.
func checkHost(host string) (string, error) {
	switch {
	case host == "":
		return "", errors.New("there is no host")
	case len(host) > maxHost:
		return "", fmt.Errorf("a host of %d bytes; at most %d are allowed", len(host), maxHost)
	case strings.Contains(host, "%"):
		return "", errors.New("a host has no zone and no %")
	}
	host = strings.ToLower(host)
	if strings.Contains(host, ":") {
		a, err := netip.ParseAddr(host)
		if err != nil {
			return "", errors.New("the host is not a valid IPv6 address")
		}
		return a.Unmap().String(), nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String(), nil
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	if looksNumeric(labels[len(labels)-1]) {
		return "", errors.New("the host looks like an address, but not one of four decimal numbers; write it as 192.0.2.7")
	}
	return host, nil
}

func checkLabel(label string) error {
	switch {
	case label == "":
		return errors.New("a name has no empty part, and no dot at its end")
	case len(label) > maxLabel:
		return fmt.Errorf("a part of the name has %d bytes; at most %d are allowed", len(label), maxLabel)
	}
	for _, c := range []byte(label) {
		switch {
		case c >= 0x80:
			return errors.New("a name must be ASCII; write other characters in their ASCII form, xn--…")
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return fmt.Errorf("a name has no %q", c)
		}
	}
	return nil
}

// looksNumeric reports whether a name's last label makes inet_aton parse the name as an address,
// with decimal, octal or hexadecimal numbers.
func looksNumeric(label string) bool {
	if _, err := strconv.ParseUint(label, 10, 64); err == nil {
		return true
	}
	rest, ok := strings.CutPrefix(label, "0x")
	if !ok {
		return strings.Trim(label, "0123456789") == ""
	}
	return strings.Trim(rest, "0123456789abcdef") == ""
}

// match reports whether p matches an endpoint.
func (p Pattern) match(e endpoint) bool {
	switch {
	case p.port == "" && e.port != defaultPort(e.scheme), p.port != "" && p.port != "*" && p.port != e.port:
		return false
	case !p.sub:
		return p.host == e.host
	case p.host == "":
		return true
	}
	if _, err := netip.ParseAddr(e.host); err == nil {
		return false
	}
	return strings.HasSuffix(e.host, p.host)
}

func anyMatch(list []Pattern, e endpoint) bool {
	for _, p := range list {
		if p.match(e) {
			return true
		}
	}
	return false
}

// An endpoint is the destination of a request.
type endpoint struct{ scheme, host, port string }

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// String returns the endpoint in the form that grants have: the host, and the port unless it is the
// scheme's default.
func (e endpoint) String() string {
	host := e.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if e.port == defaultPort(e.scheme) {
		return host
	}
	return host + ":" + e.port
}

// short truncates untrusted text for a message.
func short(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return truncate.Text(s, limit) + "…"
}
