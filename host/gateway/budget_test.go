package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
)

// TestBudgetOfFile checks that a budget survives a change of the file and a restart, and that a change of
// the prices is active at once.
func TestBudgetOfFile(t *testing.T) {
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":0}}`))
	}))
	defer u.Close()
	dir := t.TempDir()
	sums, prices := filepath.Join(dir, "usage.json"), filepath.Join(dir, "prices.yaml")
	price := func(input string) {
		require.NoError(t, os.WriteFile(prices, []byte("prices: [{model: m, input: "+input+", output: 1}]"), 0o600))
	}
	price("600")
	text := "usage_file: " + sums + "\nprices: " + prices + "\nkeys: [{name: ann, env: ANN, budget: {cost: 1}}]\n" +
		"routes: [{protocol: chat, upstream: '" + u.URL + "', api_key_env: ANN}]"
	f, err := load(t, text)
	require.NoError(t, err)
	require.Contains(t, f.Files(), prices)
	h, err := host.New(t.Context(), nil)
	require.NoError(t, err)
	defer h.Close(context.Background())
	secret := "a-key-of-twenty-bytes"
	start := func() (*gateway.Gateway, prometheus.Gatherer) {
		r := prometheus.NewRegistry()
		g, err := gateway.New(t.Context(), h, f, &gateway.Options{
			Metrics: r, Modules: &host.FileOptions{Getenv: func(string) string { return secret }}})
		require.NoError(t, err)
		return g, r
	}
	status := func(g http.Handler) int {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/chat/completions", strings.NewReader(`{"model":"m"}`))
		req.Header.Set("X-Api-Key", secret)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, req)
		return w.Code
	}
	g, r := start()
	require.Equal(t, 200, status(g)) // the requests of the key have cost 0.6 of its budget of 1
	price("200")
	require.NoError(t, g.Replace(t.Context(), f))
	require.Equal(t, 200, status(g)) // the cost is 0.8
	g.Close()
	g, _ = start()
	require.Equal(t, 200, status(g)) // the cost is 1, the whole budget
	require.Equal(t, 400, status(g))
	families, err := r.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)

	other := *f
	other.UsageFile = ""
	require.ErrorContains(t, g.Replace(t.Context(), &other), "restart the gateway to change it")
	price("-1")
	require.ErrorContains(t, g.Replace(t.Context(), f), "prices.yaml: prices[0]")
	g.Close()

	secret = "short"
	price("1")
	_, err = gateway.New(t.Context(), h, f, &gateway.Options{
		Modules: &host.FileOptions{Getenv: func(string) string { return secret }}})
	require.ErrorContains(t, err, "fewer than 16 bytes")
}

// TestApproverOfFile checks that an approver requires the environment variable that holds its key.
func TestApproverOfFile(t *testing.T) {
	h, err := host.New(t.Context(), nil)
	require.NoError(t, err)
	defer h.Close(context.Background())
	f, err := load(t, "approver: {url: 'https://approvals.example.com', key_env: APPROVER}\nroutes: [{protocol: chat}]")
	require.NoError(t, err)
	secret := ""
	o := &gateway.Options{Modules: &host.FileOptions{Getenv: func(string) string { return secret }}}
	_, err = gateway.New(t.Context(), h, f, o)
	require.ErrorContains(t, err, "the environment variable APPROVER, the key of the approver, is not set")
	secret = "key"
	g, err := gateway.New(t.Context(), h, f, o)
	require.NoError(t, err)
	g.Close()
}
