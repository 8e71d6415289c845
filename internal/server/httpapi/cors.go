package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/agent-runner/agent-runner/host/api"
)

// Headers of cross-origin requests and responses. Pages may send the headers of OpenAI's, Anthropic's
// and AG-UI's clients. Credentials are never allowed, so that browsers send no cookies.
const (
	corsMethods = "GET, HEAD, POST"
	corsHeaders = "Authorization, X-Api-Key, Content-Type, Accept, Idempotency-Key, Last-Event-ID, X-Request-Id, X-Thread, " +
		"OpenAI-Beta, OpenAI-Organization, OpenAI-Project, Anthropic-Version, Anthropic-Beta, " +
		"Anthropic-Dangerous-Direct-Browser-Access, X-Stainless-Arch, X-Stainless-Helper-Method, X-Stainless-Lang, " +
		"X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, " +
		"X-Stainless-Runtime-Version, X-Stainless-Timeout"
	corsExposed = "Location, Retry-After, X-Request-Id"
	corsMaxAge  = "600" // seconds
)

// maxOrigin limits an origin, in bytes: a host name has at most 253.
const maxOrigin = 270

// originHost matches the hosts of origins as browsers write them: in lower case, and with
// international names in ASCII. The last label must begin with a letter, because names that end with
// a number are addresses.
var originHost = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckOrigin returns an error if a tenant cannot allow the origin text. An origin must be
// https://host or https://host:port in the form that browsers send. For the local machine, it may
// have http. The first label of the host may be *, a wildcard for one label, if the domain after it
// has a single owner.
func CheckOrigin(text string) error {
	u, err := url.Parse(text)
	if len(text) > maxOrigin || err != nil || u.Scheme+"://"+u.Host != text || u.Host == "" {
		return errors.New("want https://host or https://host:port, without a path")
	}
	host, port := u.Hostname(), u.Port()
	wildcard := strings.HasPrefix(host, "*.")
	name := strings.TrimPrefix(host, "*.")
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	isAddress := err == nil
	switch {
	case isAddress && address.String() != host || !isAddress && !originHost.MatchString(name):
		return errors.New("write the host as browsers do: in lower case and ASCII, without a dot at the end")
	case strings.HasSuffix(u.Host, ":") || port != "" && (port[0] == '0' || u.Scheme == "https" && port == "443" ||
		u.Scheme == "http" && port == "80"):
		return errors.New("write the port as browsers do: without zeros in front, and not the default one")
	case u.Scheme == "http" && (wildcard || host != "localhost" && (!isAddress || !address.IsLoopback())):
		return errors.New("want https; http is allowed on localhost only")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("want https")
	case wildcard:
		if _, err := publicsuffix.EffectiveTLDPlusOne(name); err != nil {
			return errors.New("anyone can have a name below this domain; want a domain of your own behind *")
		}
	}
	return nil
}

// wildcardOf returns an origin with a wildcard in place of the first label of its host. It returns ""
// if the host has only one label.
func wildcardOf(origin string) string {
	scheme, host, _ := strings.Cut(origin, "://")
	if _, rest, ok := strings.Cut(host, "."); ok && scheme == "https" {
		return scheme + "://*." + rest
	}
	return ""
}

// crossOrigin returns the origin of the page of another site that sent a request. It returns "" if a
// page of this server or a client other than a browser sent the request. ok is false if the origin is
// invalid, such as null.
func crossOrigin(r *http.Request) (origin string, ok bool) {
	all := r.Header.Values("Origin")
	if len(all) == 0 || r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		return "", true
	}
	if u, err := url.Parse(all[0]); err == nil && len(all) == 1 && r.Header.Get("Sec-Fetch-Site") == "" &&
		sameHost(u, r.Host) {
		return "", true
	}
	if len(all) > 1 || strings.Contains(all[0], "*") || CheckOrigin(all[0]) != nil {
		return "", false
	}
	return all[0], true
}

// sameHost reports whether an origin has the host and port of a request.
func sameHost(origin *url.URL, host string) bool {
	standard := map[string]string{"https": "443", "http": "80"}[origin.Scheme]
	return host != "" && origin.Host == host ||
		origin.Port() == "" && net.JoinHostPort(origin.Hostname(), standard) == host
}

// An originList reports which origins are allowed.
type originList interface {
	HasOrigin(ctx context.Context, exact, wildcard string) (bool, error)
}

// allowOrigin lets the page of another origin read the response if the origin is in a list. Otherwise
// it fails with a [*Problem]. It accepts requests that no page of another origin has sent.
func (*Router) allowOrigin(w http.ResponseWriter, r *http.Request, list originList) error {
	origin, ok := crossOrigin(r)
	if ok && origin == "" {
		return nil
	}
	if ok {
		var err error
		if ok, err = list.HasOrigin(r.Context(), origin, wildcardOf(origin)); err != nil {
			return err
		}
	}
	if !ok {
		return NewProblem(
			api.CodeForbidden,
			"pages of the origin %.100q may not use this; an owner of the tenant allows origins with PUT /v1/cors",
			r.Header.Get("Origin"),
		)
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposed)
	return nil
}

// isPreflight reports whether a request is a preflight request: a browser asks whether a page of
// another origin may send a request.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" &&
		r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers a preflight request. Such requests have no credentials, so the tenant is not
// known. Therefore the answer allows an origin if any tenant allows it. The request that follows must
// have a token of a tenant that allows the origin.
func (rt *Router) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	if err := rt.allowOrigin(w, r, rt.store); err != nil {
		rt.reject(w, r, err)
		return
	}
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Del("Access-Control-Expose-Headers")
		h.Set("Access-Control-Allow-Methods", corsMethods)
		h.Set("Access-Control-Allow-Headers", corsHeaders)
		h.Set("Access-Control-Max-Age", corsMaxAge)
	}
	w.WriteHeader(http.StatusNoContent)
}
