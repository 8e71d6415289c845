package servertest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/signin"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Provider is an OpenID Connect provider. Its codes can be used any number of times, so that the
// server has to prevent that.
type Provider struct {
	t   *testing.T
	URL string
	key *rsa.PrivateKey

	mu     sync.Mutex
	claims map[string]any      // of the next ID token, in addition to the usual ones
	sign   func([]byte) string // replaces the signature of ID tokens
	codes  map[string]url.Values
	keys   int // number of requests for the keys
}

// NewProvider starts a provider that ends with its test.
func NewProvider(t *testing.T) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &Provider{t: t, key: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	hs := httptest.NewServer(mux)
	t.Cleanup(hs.Close)
	p.URL = hs.URL
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"jwks_uri": p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		p.keys++
		p.mu.Unlock()
		_ = json.NewEncoder(w).
			Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k", Algorithm: "RS256"}}})
	})
	mux.HandleFunc("/token", p.token)
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(
			w,
			`<!doctype html><title>Example</title><form method="post"><button>Continue as Ann</button></form>`,
		)
	})
	mux.HandleFunc("POST /authorize", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, p.Authorize(r.URL.String()), http.StatusSeeOther)
	})
	return p
}

// Authorize simulates a person's consent at the provider. It returns the address of the callback.
func (p *Provider) Authorize(location string) (callback string) {
	u, err := url.Parse(location)
	require.NoError(p.t, err)
	q := u.Query()
	require.Equal(p.t, "S256", q.Get("code_challenge_method"))
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	asked, ok := p.codes[r.FormValue("code")]
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": "x", "token_type": "Bearer", "id_token": p.JWT(map[string]any{"nonce": asked.Get("nonce")}),
	})
}

// JWT returns an ID token with the usual claims, p.claims and more. A nil claim is absent.
func (p *Provider) JWT(more map[string]any) string {
	claims := map[string]any{
		"iss": p.URL, "aud": "client", "sub": "ann-1", "email": "Ann@acme.example", "email_verified": true, "name": "Ann",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	p.mu.Lock()
	maps.Copy(claims, more)
	maps.Copy(claims, p.claims)
	sign := p.sign
	p.mu.Unlock()
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	b, err := json.Marshal(claims)
	require.NoError(p.t, err)
	if sign != nil {
		return sign(b)
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: p.key, KeyID: "k"}},
		nil,
	)
	require.NoError(p.t, err)
	signed, err := signer.Sign(b)
	require.NoError(p.t, err)
	text, err := signed.CompactSerialize()
	require.NoError(p.t, err)
	return text
}

// SetClaims changes the claims of the next tokens.
func (p *Provider) SetClaims(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// WithProvider returns a function that sets up sign-in with a provider. The address of the fixture is not known
// yet, but browsers of the tests send requests only to the paths of the redirects.
func WithProvider(p *Provider, set ...func(*signin.Options)) func(*server.Options) {
	return func(o *server.Options) {
		o.SignIn = &signin.Options{
			Issuer: p.URL, ClientID: "client", RedirectURL: "http://localhost/auth/callback", Name: "Example",
			Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		}
		for _, fn := range set {
			fn(o.SignIn)
		}
	}
}

// AddMember adds a member with a role to a tenant.
func AddMember(t *testing.T, f *Fixture, tenant, email, role string) {
	t.Helper()
	_, err := f.Store.Tenant(tenant).AddMember(t.Context(), &store.Member{Email: email, Role: role})
	require.NoError(t, err)
}

// SetSignature replaces the signature of ID tokens. The function sign returns the token with the given
// claims. If it is nil, the provider signs with its key.
func (p *Provider) SetSignature(sign func(claims []byte) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sign = sign
}

// KeyRequests returns the number of requests for the provider's public keys.
func (p *Provider) KeyRequests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys
}
