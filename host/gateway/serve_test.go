package gateway_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/host/server"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/gateway/gatewaytest"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// TestClientsOfATenant runs the tasks of TestClients through the routes of a tenant of a server.
func TestClientsOfATenant(t *testing.T) {
	npmtest.Folder(t) // skips the test before it starts servers
	ctx := t.Context()
	up := gatewaytest.NewUpstream(weatherModel)
	defer up.Close()
	h, err := host.New(ctx, &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	defer h.Close(context.Background())
	db, err := store.Open(ctx, filepath.Join(t.TempDir(), "platform.db"), nil)
	require.NoError(t, err)
	defer db.Close()
	platform, err := server.New(
		&server.Options{Store: db, Host: h, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	require.NoError(t, err)
	s := httptest.NewServer(platform)
	defer s.Close()

	operatorKey, err := platform.OperatorKey(ctx, false)
	require.NoError(t, err)
	operator, err := client.New(s.URL, operatorKey, nil)
	require.NoError(t, err)
	_, err = operator.CreateTenant(ctx, &api.CreateTenant{ID: "acme"})
	require.NoError(t, err)
	key, err := operator.CreateKey(ctx, "acme", &api.CreateKey{Name: "clients"})
	require.NoError(t, err)
	acme, err := client.New(s.URL, key.Secret, nil)
	require.NoError(t, err)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	redact, err := guestbuild.Module(ctx, root, "examples/wasm-middlewares/redact")
	require.NoError(t, err)
	for path, kind := range map[string]string{
		redact: "application/wasm", filepath.Join("testdata", "loud.js"): "application/javascript",
		filepath.Join("testdata", "deny.js"): "application/javascript",
	} {
		source, err := os.Open(path)
		require.NoError(t, err)
		_, err = acme.PutModule(ctx,
			&client.Upload{Name: agentfile.EntryName(path), Version: "1", Type: kind, Body: source}) // closes source
		require.NoError(t, err)
	}
	text := "routes:\n"
	for protocol := range gatewaytest.Paths {
		text += fmt.Sprintf("- {protocol: %s, upstream: %q, "+
			"middlewares: [{module: redact, config: {reversible: true}}, {module: loud}, {module: deny}]}\n", protocol, up.URL)
	}
	stored, err := acme.PutGateway(ctx, []byte(text))
	require.NoError(t, err)
	require.Len(t, stored.Modules, 9)
	runClients(t, up, s.URL, key.Secret)
	require.NoError(t, acme.DeleteGateway(ctx))
	_, err = acme.Gateway(ctx, 0)
	require.ErrorContains(t, err, "no gateway is stored")
}
