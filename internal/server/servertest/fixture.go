// Package servertest starts servers of the platform for tests, and sends them requests.
package servertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// A Fixture is a server with the tenants acme and beta.
type Fixture struct {
	T        *testing.T
	Server   *server.Server
	Services *server.Services // the parts of Server
	Store    store.Store
	Host     *host.Host
	URL      string
	Operator string // API keys of the operator and of the two tenants
	Acme     string
	Beta     string
}

// New returns a fixture with an SQLite file as its store. The functions set change the options of its
// server. With -short, it skips the test.
func New(t *testing.T, set ...func(*server.Options)) *Fixture {
	t.Helper()
	return NewAt(t, storetest.File(t), set...)
}

// NewAt is like [New], with the store at the location where: the path of an SQLite file, or the URL of a
// PostgreSQL database.
func NewAt(t *testing.T, where string, set ...func(*server.Options)) *Fixture {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it starts a server with a database")
	}
	ctx := t.Context()
	keyring, err := keyring.Parse("test:" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	require.NoError(t, err)
	s, err := store.Open(ctx, where, &store.Options{Keyring: keyring, Cost: costInTests})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	h, err := host.New(ctx, &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() {
		// A run whose end was reported may still be cleaning up.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, h.Close(ctx))
	})
	o := &server.Options{Store: s, Host: h, MaxUpload: 8 << 20}
	for _, fn := range set {
		fn(o)
	}
	srv, err := server.New(o)
	require.NoError(t, err)
	hs := httptest.NewServer(srv)
	t.Cleanup(hs.Close)
	f := &Fixture{T: t, Server: srv, Services: server.ServicesOf(srv), Store: s, Host: h, URL: hs.URL}
	for _, id := range []string{"acme", "beta"} {
		_, err := s.CreateTenant(ctx, id, id, store.TenantQuota{}, nil)
		require.NoError(t, err)
	}
	f.Operator = f.Key(store.Operator, httpapi.OperatorScopes()...)
	f.Acme = f.Key("acme", httpapi.ScopeNames(httpapi.TenantScopes)...)
	f.Beta = f.Key("beta", httpapi.ScopeNames(httpapi.TenantScopes)...)
	return f
}

// costInTests prices the tokens of models in tests: one and two millionths for a token of the models
// small-cheap and small-dear, and nothing for others.
func costInTests(model string, promptTokens, completionTokens int64) int64 {
	return map[string]int64{"small-cheap": 1000, "small-dear": 2000}[model] * (promptTokens + completionTokens)
}

// Key creates an API key of a tenant with the given scopes, and returns it in the form that clients
// send.
func (f *Fixture) Key(tenant string, scopes ...string) string {
	f.T.Helper()
	_, shown, err := f.Store.Tenant(tenant).
		CreateKey(f.T.Context(), &store.KeyOptions{Name: "key of " + tenant, Scopes: scopes})
	require.NoError(f.T, err)
	return shown
}

// KeyID returns the id of an API key. The id is part of the text that clients send.
func KeyID(shown string) string { return strings.Split(shown, "_")[1] }

// WithLog returns a function that sets a logger that writes all levels to w.
func WithLog(w io.Writer) func(*server.Options) {
	return func(o *server.Options) {
		o.Logger = slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// WithOwner returns a function that sets the name of the server's process.
func WithOwner(owner string) func(*server.Options) {
	return func(o *server.Options) { o.Owner = owner }
}

// RoleKey creates an API key of a tenant with a role.
func (f *Fixture) RoleKey(tenant string, role httpapi.Role) string {
	f.T.Helper()
	_, shown, err := f.Store.Tenant(tenant).
		CreateKey(f.T.Context(), &store.KeyOptions{Name: string(role), Role: string(role)})
	require.NoError(f.T, err)
	return shown
}

// A Buffer collects what a logger writes. Several goroutines may use it at once.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
