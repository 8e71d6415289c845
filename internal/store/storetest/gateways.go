package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// testGateways checks the versions of a tenant's gateway, and that they are the tenant's own.
func testGateways(t *testing.T, open Opener) {
	s, where := open(t, &store.Options{Keyring: newKeyring(t, "a")})
	ctx := t.Context()
	acme, beta := newTenant(t, s, "acme", store.TenantQuota{}), newTenant(t, s, "beta", store.TenantQuota{})
	_, err := acme.Gateway(ctx, 0)
	require.ErrorIs(t, err, store.ErrNoGateway)
	_, err = acme.GatewaySnapshot(ctx, "rings")
	require.ErrorIs(t, err, store.ErrNoGateway)
	require.ErrorIs(t, acme.DeleteGateway(ctx), store.ErrNoGateway)

	digest, err := s.PutModule(ctx, []byte("bytes"))
	require.NoError(t, err)
	require.NoError(t, acme.PutModule(ctx,
		&store.TenantModule{Digest: digest, Kind: "wasm", Size: 5, About: json.RawMessage(`{}`)}, "m", "1"))
	for i, want := range []int64{1, 1, 2, 3} {
		g, err := acme.PutGateway(ctx, []byte([]string{"x", "x", "y", "x"}[i]), []string{digest})
		require.NoError(t, err)
		require.Equal(t, want, g.Version, "a version equal to the newest is not stored")
		require.Equal(t, []string{digest}, g.Modules)
	}
	g, err := again(t, where).Tenant("acme").Gateway(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, "y", string(g.Body))
	_, err = acme.Gateway(ctx, 4)
	require.ErrorIs(t, err, store.ErrNoGateway)
	require.ErrorIs(t, acme.DeleteModule(ctx, digest), store.ErrInUse)

	require.NoError(t, acme.SetSecret(ctx, "key", []byte("hush")))
	_, err = s.Tenant(store.Operator).PutAgent(ctx, "rings", []byte("rings: {}"), nil)
	require.NoError(t, err)
	p, err := acme.GatewaySnapshot(ctx, "rings")
	require.NoError(t, err)
	require.Equal(t, []any{"acme", int64(3), "rings", "key"},
		[]any{p.Info.ID, p.Gateway.Version, p.Around.Name, p.Secrets[0].Name})
	p, err = acme.GatewaySnapshot(ctx, "none")
	require.NoError(t, err)
	require.Nil(t, p.Around)

	_, err = beta.Gateway(ctx, 0)
	require.ErrorIs(t, err, store.ErrNoGateway, "it is another tenant's")
	require.ErrorIs(t, beta.DeleteGateway(ctx), store.ErrNoGateway)
	_, err = s.Tenant("none").PutGateway(ctx, []byte("x"), nil)
	require.ErrorIs(t, err, store.ErrNoTenant)

	for i := range 105 {
		_, err := acme.PutGateway(ctx, fmt.Append(nil, i), nil)
		require.NoError(t, err)
	}
	_, err = acme.Gateway(ctx, 8)
	require.ErrorIs(t, err, store.ErrNoGateway, "the oldest of more than 100 versions are deleted")
	_, err = acme.Gateway(ctx, 9)
	require.NoError(t, err)
	require.NoError(t, acme.DeleteModule(ctx, digest), "the newest version does not refer to it")
	require.NoError(t, acme.DeleteGateway(ctx))
	_, err = acme.Gateway(ctx, 9)
	require.ErrorIs(t, err, store.ErrNoGateway)
}

// testGatewayQuotas checks that a gateway counts as storage, and that the quotas of a day apply to its
// requests.
func testGatewayQuotas(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	quota := store.TenantQuota{StorageBytes: 10, RunsPerDay: 2, TokensPerDay: 100, FuelPerDay: 50}
	acme := newTenant(t, s, "acme", quota)
	over := func(err error, quota string) {
		t.Helper()
		var full *store.QuotaError
		require.ErrorAs(t, err, &full)
		require.Equal(t, quota, full.Quota)
	}
	_, err := acme.PutGateway(ctx, make([]byte, 11), nil)
	over(err, "storage_bytes")
	_, err = acme.PutGateway(ctx, make([]byte, 6), nil)
	require.NoError(t, err)
	_, err = acme.PutGateway(ctx, make([]byte, 5), nil)
	over(err, "storage_bytes")

	check := func() error {
		_, err := acme.GatewaySnapshot(ctx, "")
		return err
	}
	now, err := s.Now(ctx)
	require.NoError(t, err)
	for _, tc := range []struct {
		used  store.Usage
		quota string
	}{
		{store.Usage{Agent: "gateway:a", Runs: 1, PromptTokens: 50, CompletionTokens: 49}, ""},
		{store.Usage{Agent: "gateway:a", CompletionTokens: 1}, "tokens_per_day"},
		{store.Usage{Agent: "gateway:a", CompletionTokens: -1}, ""},
		{store.Usage{Agent: "gateway:a", Module: "d", Fuel: 50}, "fuel_per_day"},
		{store.Usage{Agent: "gateway:a", Runs: 1}, "runs_per_day"},
	} {
		require.NoError(t, acme.AddUsage(ctx, tc.used))
		if tc.quota == "" {
			require.NoError(t, check())
			continue
		}
		over(check(), tc.quota)
	}
	rows, _, err := acme.Usage(ctx, store.Day(now), store.Day(now.Add(24*time.Hour)), store.Page{})
	require.NoError(t, err)
	require.Len(t, rows, 2, "rows without a day belong to the current one")
	require.Equal(t, []any{"gateway:a", int64(2)}, []any{rows[0].Agent, rows[0].Runs})
}
