// Package signin lets people sign in with an OpenID Connect provider: with a browser, which gets a
// session in a cookie, or with a token of the provider as a bearer token.
//
// A sign-in in progress is not stored on the server. The state, the nonce and the verifier of PKCE
// are derived from a random secret in a cookie of the browser, so that only this browser can complete
// the sign-in. The store accepts each state once.
package signin

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Options configure the identity provider. Issuer, ClientID and RedirectURL are required.
type Options struct {
	// Issuer is the address of the provider, below which /.well-known/openid-configuration is.
	Issuer string
	// ClientID and ClientSecret are the credentials of this server at the provider. Public clients
	// have no secret.
	ClientID, ClientSecret string
	// RedirectURL is the address of this server's /auth/callback for browsers. It needs https, except
	// on the local machine.
	RedirectURL string
	// Name is the provider's name on the sign-in button. The default is the issuer's host.
	Name string
	// Scopes are requested in addition to openid, email and profile.
	Scopes []string
	// Domains lists the domains of accepted e-mail addresses. By default, any address is accepted,
	// and none is required.
	Domains []string
	// GroupsClaim is the claim with the groups of a person. The default is "groups".
	GroupsClaim string
	// TrustEmail accepts e-mail addresses without the claim email_verified.
	TrustEmail bool
	// Bearer accepts tokens of the provider as bearer tokens, if their audience is ClientID or one of
	// Audiences.
	Bearer    bool
	Audiences []string
	// SessionTTL limits the life of a session; the default is 12 hours. IdleTimeout ends a session
	// that is not used; the default is an hour.
	SessionTTL, IdleTimeout time.Duration
	// Private lists the ranges of private addresses that the provider may have.
	Private []netip.Prefix
}

// check checks the options, and returns the origin of the redirect URL and whether its scheme is https.
// The error tells the operator which option to change.
func (o *Options) check() (origin string, secure bool, err error) {
	if o.Issuer == "" || o.ClientID == "" || o.RedirectURL == "" {
		return "", false, errors.New("want issuer, client_id and redirect_url")
	}
	if i, err := url.Parse(o.Issuer); err != nil || i.Host == "" ||
		i.Scheme != "https" && (i.Scheme != "http" || !local(i)) {
		return "", false, fmt.Errorf("issuer is %.200q; want an https address", o.Issuer)
	}
	u, err := url.Parse(o.RedirectURL)
	switch {
	case err != nil || u.Host == "" || u.Path != callbackPath || u.RawQuery != "" || u.Fragment != "":
		return "", false, fmt.Errorf("redirect_url is %.200q; want the address of this server with the path %s",
			o.RedirectURL, callbackPath)
	case u.Scheme == "https":
		return "https://" + u.Host, true, nil
	case u.Scheme == "http" && local(u):
		return "http://" + u.Host, false, nil
	}
	return "", false, fmt.Errorf("redirect_url is %.200q; want https, or http on the local machine", o.RedirectURL)
}

// local reports whether a URL is on the local machine.
func local(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
}
