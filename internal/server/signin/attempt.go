package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

// attemptTTL is the time within which a sign-in has to be completed.
const attemptTTL = 10 * time.Minute

// maxReturn limits the path to which a browser returns, in bytes.
const maxReturn = 512

// An attempt is a sign-in in progress. Its secret is in a cookie of the browser.
type attempt struct {
	secret string
	to     string // the path in the console to which the browser returns
}

func newAttempt(to string) attempt { return attempt{rand.Text() + rand.Text(), to} }

// derive returns a value of the attempt that does not reveal its secret.
func (a attempt) derive(purpose string) string {
	sum := sha256.Sum256([]byte(purpose + "\x00" + a.secret))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (a attempt) state() string    { return a.derive("state") }
func (a attempt) nonce() string    { return a.derive("nonce") }
func (a attempt) verifier() string { return a.derive("verifier") }

// cookie returns the cookie of the attempt. The provider's redirect is a navigation from another
// site, so the cookie is not strict.
func (s *Service) cookie(a attempt) *http.Cookie {
	return &http.Cookie{
		Name: s.attemptCookie, Value: a.secret + "." + base64.RawURLEncoding.EncodeToString([]byte(a.to)),
		Path: "/", MaxAge: int(attemptTTL / time.Second), HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	}
}

// attemptOf returns the attempt in the cookie of a request. ok is false if there is none.
func (s *Service) attemptOf(r *http.Request) (a attempt, ok bool) {
	c, err := r.Cookie(s.attemptCookie)
	if err != nil {
		return a, false
	}
	secret, to, ok := strings.Cut(c.Value, ".")
	b, err := base64.RawURLEncoding.DecodeString(to)
	if !ok || err != nil || len(secret) < 2*26 {
		return a, false
	}
	return attempt{secret, returnPath(string(b))}, true
}

// returnPath returns a path of the console, or the console's first page for anything else. Only
// paths that begin with "/#/" are pages: no other site, and no other route of this server.
func returnPath(to string) string {
	bad := strings.ContainsFunc(to, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' })
	if bad || len(to) > maxReturn || !strings.HasPrefix(to, "/#/") {
		return "/"
	}
	return to
}
