package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// newTenant creates a tenant with a quota, and returns access to its data.
func newTenant(t *testing.T, s store.Store, id string, q store.TenantQuota) *store.Tenant {
	t.Helper()
	_, err := s.CreateTenant(t.Context(), id, id, q, nil)
	require.NoError(t, err)
	return s.Tenant(id)
}

func testTenants(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	made, err := s.CreateTenant(ctx, "acme", "Ácme", store.TenantQuota{Modules: 3}, json.RawMessage(`{"grants":["*"]}`))
	require.NoError(t, err)
	require.Equal(t, store.TenantQuota{Modules: 3}, made.Quota)
	_, err = s.CreateTenant(ctx, "acme", "", store.TenantQuota{}, nil)
	require.ErrorIs(t, err, store.ErrExists)
	newTenant(t, s, "beta", store.TenantQuota{})

	name := "Acme Ltd"
	_, err = again(t,
		where).UpdateTenant(ctx, "acme", &store.TenantUpdate{Name: &name, Quota: &store.TenantQuota{RunsPerDay: 9}})
	require.NoError(t, err)
	info, err := s.TenantInfo(ctx, "acme")
	require.NoError(t, err)
	require.Equal(t, "Acme Ltd", info.Name)
	require.Equal(t, store.TenantQuota{RunsPerDay: 9}, info.Quota)
	require.JSONEq(t, `{"grants":["*"]}`, string(info.Policy), "the policy did not change")
	_, err = s.UpdateTenant(ctx, "none", &store.TenantUpdate{})
	require.ErrorIs(t, err, store.ErrNoTenant)

	list, _, err := s.Tenants(ctx, store.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 2, "the operator is not listed")
	list, _, err = s.Tenants(ctx, store.Page{After: &store.Position{Name: "acme"}, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "beta", list[0].ID)

	_, _, err = s.Tenant("none").CreateKey(ctx, &store.KeyOptions{})
	require.ErrorIs(t, err, store.ErrNoTenant)
	require.ErrorIs(t, s.DeleteTenant(ctx, store.Operator), store.ErrInUse)
	require.ErrorIs(t, s.DeleteTenant(ctx, "none"), store.ErrNoTenant)
}

func testDeleteTenant(t *testing.T, open Opener) {
	keyring := newKeyring(t, "a")
	s, _ := open(t, &store.Options{Keyring: keyring})
	ctx := t.Context()
	acme, beta := newTenant(t, s, "acme", store.TenantQuota{}), newTenant(t, s, "beta", store.TenantQuota{})
	for _, tenant := range []*store.Tenant{acme, beta} {
		fill(t, s, tenant)
	}
	require.NoError(t,
		s.Create(ctx, &journal.Creation{ID: "busy", Tenant: "acme", Owner: "me", LeaseTTL: lease, Log: []byte("x")}))
	require.ErrorIs(t, s.DeleteTenant(ctx, "acme"), store.ErrInUse)
	require.NoError(t, s.Abandon(ctx, "acme-run", ""))
	require.NoError(t, s.Commit(ctx, &journal.Commit{Run: "busy", Epoch: 1, Entry: 2, Log: []byte("x"), First: 1, Last: 0,
		Progress: &journal.Progress{Status: journal.StatusFinished}, LeaseTTL: lease}))
	require.NoError(t, s.DeleteTenant(ctx, "acme"))
	_, err := s.CreateTenant(ctx, "acme", "", store.TenantQuota{}, nil)
	require.NoError(t, err, "another tenant of the name")
	require.Equal(t, "", strings.Join(has(t, acme), " "), "has nothing of the deleted one")
	require.Equal(t, "agent gateway key module run secret usage", strings.Join(has(t, beta), " "))
}

// fill creates a row of each kind for a tenant.
func fill(t *testing.T, s store.Store, tenant *store.Tenant) {
	t.Helper()
	ctx, id := t.Context(), tenant.ID()
	_, _, err := tenant.CreateKey(ctx, &store.KeyOptions{Name: id})
	require.NoError(t, err)
	digest, err := s.PutModule(ctx, []byte("the same bytes for all"))
	require.NoError(t, err)
	require.NoError(
		t,
		tenant.PutModule(ctx, &store.TenantModule{Digest: digest, Kind: "wasm", Size: 22, About: json.RawMessage(`{}`)},
			id+"-module", "1"),
	)
	_, err = tenant.PutAgent(ctx, id+"-agent", []byte("name: a"), []string{digest})
	require.NoError(t, err)
	_, err = tenant.PutGateway(ctx, []byte("routes: []"), []string{digest})
	require.NoError(t, err)
	require.NoError(t, tenant.SetSecret(ctx, "openai", []byte(id)))
	require.NoError(t, tenant.AddUsage(ctx, store.Usage{Day: "2026-01-31", Agent: id, Fuel: 7}))
	require.NoError(
		t,
		s.Create(ctx,
			&journal.Creation{ID: id + "-run", Tenant: id, Agent: id, Owner: "me", LeaseTTL: -time.Second, Log: []byte("x")}),
	)
}

// has returns the kinds of rows that a tenant has, in alphabetical order.
func has(t *testing.T, tenant *store.Tenant) (out []string) {
	t.Helper()
	ctx := t.Context()
	note := func(what string, n int, err error) {
		require.NoError(t, err)
		if n > 0 {
			out = append(out, what)
		}
	}
	agents, _, err := tenant.Agents(ctx, store.Page{Limit: 10})
	note("agent", len(agents), err)
	if _, err := tenant.Gateway(ctx, 0); !errors.Is(err, store.ErrNoGateway) {
		note("gateway", 1, err)
	}
	keys, _, err := tenant.Keys(ctx, store.Page{})
	note("key", len(keys), err)
	modules, _, err := tenant.Modules(ctx, store.Page{Limit: 10})
	note("module", len(modules), err)
	runs, _, err := tenant.Runs(ctx, &store.Filter{Tenant: "acme"})
	note("run", len(runs), err)
	secrets, _, err := tenant.Secrets(ctx, store.Page{})
	note("secret", len(secrets), err)
	usage, _, err := tenant.Usage(ctx, "2026-01-01", "2026-12-31", store.Page{})
	note("usage", len(usage), err)
	return out
}

// testIsolation checks that no method gives a tenant access to another tenant's rows.
func testIsolation(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Keyring: newKeyring(t, "a")})
	ctx := t.Context()
	acme, beta := newTenant(t, s, "acme", store.TenantQuota{}), newTenant(t, s, "beta", store.TenantQuota{})
	fill(t, s, acme)
	require.Empty(t, has(t, beta))
	keys, _, err := acme.Keys(ctx, store.Page{})
	require.NoError(t, err)
	modules, _, err := acme.Modules(ctx, store.Page{Limit: 1})
	require.NoError(t, err)
	key, digest := keys[0].ID, modules[0].Digest

	for name, do := range map[string]func() error{
		"key":           func() error { _, err := beta.Key(ctx, key); return err },
		"revoke key":    func() error { return beta.RevokeKey(ctx, key) },
		"rotate key":    func() error { _, _, err := beta.RotateKey(ctx, key, 0); return err },
		"module":        func() error { _, err := beta.Module(ctx, digest); return err },
		"module name":   func() error { _, err := beta.ModuleName(ctx, "acme-module", ""); return err },
		"delete module": func() error { return beta.DeleteModule(ctx, digest) },
		"agent":         func() error { _, err := beta.Agent(ctx, "acme-agent", 0); return err },
		"delete agent":  func() error { return beta.DeleteAgent(ctx, "acme-agent") },
		"secret":        func() error { _, err := beta.Secret(ctx, "openai"); return err },
		"delete secret": func() error { return beta.DeleteSecret(ctx, "openai") },
		"run":           func() error { _, err := beta.Run(ctx, "acme-run"); return err },
		"load":          func() error { _, err := beta.LoadRun(ctx, "acme-run"); return err },
		"events":        func() error { _, err := beta.RunEvents(ctx, "acme-run", 0, 10, 1<<20); return err },
		"cancel run":    func() error { return beta.CancelRun(ctx, "acme-run") },
		"abandon run":   func() error { return beta.AbandonRun(ctx, "acme-run", "", nil) },
		"delete run":    func() error { return beta.DeleteRun(ctx, "acme-run") },
	} {
		err := do()
		require.Error(t, err, name)
		require.Regexp(t, "no such|unknown key", err.Error(), name)
	}
	require.NoError(t, beta.ReleaseRun(ctx, "acme-run"))
	require.Equal(t, "agent gateway key module run secret usage", strings.Join(has(t, acme), " "), "nothing was changed")
	all, _, err := acme.Keys(ctx, store.Page{})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Zero(t, all[0].Revoked)
}

// testKeys checks that a key authenticates its tenant, from its creation until it expires, is
// rotated or revoked, or its tenant is deleted.
func testKeys(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{Requests: 3})
	k, shown, err := acme.CreateKey(ctx, &store.KeyOptions{Name: "ci", Scopes: []string{"runs:read"}})
	require.NoError(t, err)
	require.Regexp(t, `^ar_`+k.ID+`_[a-z2-7]{52}$`, shown)

	got, info, err := again(t, where).Authenticate(ctx, shown)
	require.NoError(t, err)
	require.Equal(t, []any{"acme", "ci", []string{"runs:read"}}, []any{got.Tenant, got.Name, got.Scopes})
	require.Equal(t, "acme", info.ID)
	require.EqualValues(t, 3, info.Quota.Requests)
	got, err = acme.Key(ctx, k.ID)
	require.NoError(t, err)
	require.False(t, got.Used.IsZero())

	rejected := func(shown, reason string) {
		t.Helper()
		_, _, err := s.Authenticate(ctx, shown)
		var wrong *store.KeyError
		require.ErrorAs(t, err, &wrong)
		require.Contains(t, err.Error(), reason)
	}
	other := "a"
	if strings.HasSuffix(shown, "a") {
		other = "b"
	}
	for _, bad := range []string{"", "ar_", "x", shown[3:], shown + "a", shown[:len(shown)-1] + other, "ar_aaaaaaaaaa_" + shown[len(shown)-52:], strings.ToUpper(shown)} {
		rejected(bad, "unknown key")
	}

	next, shown2, err := acme.RotateKey(ctx, k.ID, time.Hour)
	require.NoError(t, err)
	require.Equal(t, k.Scopes, next.Scopes)
	_, _, err = s.Authenticate(ctx, shown)
	require.NoError(t, err, "the old key is valid for an hour")
	_, _, err = acme.RotateKey(ctx, k.ID, 0)
	require.NoError(t, err)
	rejected(shown, "expired")
	require.NoError(t, acme.RevokeKey(ctx, next.ID))
	require.NoError(t, acme.RevokeKey(ctx, next.ID))
	rejected(shown2, "revoked")
	_, _, err = acme.RotateKey(ctx, next.ID, 0)
	require.ErrorIs(t, err, store.ErrNoKey)
	year, _, err := acme.CreateKey(ctx, &store.KeyOptions{TTL: 365 * 24 * time.Hour})
	require.NoError(t, err)
	require.Equal(t, 365*24*time.Hour, year.Expires.Sub(year.Created))
	_, short, err := acme.CreateKey(ctx, &store.KeyOptions{TTL: time.Millisecond})
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, _, err := s.Authenticate(ctx, short); return err != nil }, 10*time.Second,
		time.Millisecond)
	rejected(short, "expired")

	require.NoError(t, s.DeleteTenant(ctx, "acme"))
	rejected(shown2, "unknown key")
}

// testFirstKey checks that exactly one of several servers that start concurrently creates the first
// key.
func testFirstKey(t *testing.T, open Opener) {
	_, where := open(t, nil)
	var made atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		s := again(t, where)
		wg.Go(func() {
			shown, err := s.Tenant(store.Operator).CreateFirstKey(t.Context(), &store.KeyOptions{Name: "operator"})
			require.NoError(t, err)
			if shown != "" {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(1), made.Load())
}

// testTenantModules checks the names, versions, quotas and deletion of a tenant's modules.
func testTenantModules(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{Modules: 2, StorageBytes: 100})
	put := func(text, name, version string) (string, error) {
		digest, err := s.PutModule(ctx, []byte(text))
		require.NoError(t, err)
		return digest, acme.PutModule(
			ctx,
			&store.TenantModule{Digest: digest, Kind: "wasm", Size: int64(len(text)), About: json.RawMessage(`{"a":1}`)},
			name,
			version,
		)
	}
	one, err := put("one", "redact", "1.0")
	require.NoError(t, err)
	_, err = put("one", "redact", "1.0")
	require.NoError(t, err, "again")
	_, err = put("two", "redact", "1.0")
	require.ErrorIs(t, err, store.ErrExists, "a version is immutable")
	two, err := put("two", "redact", "2.0")
	require.NoError(t, err)
	var full *store.QuotaError
	_, err = put("three", "", "")
	require.ErrorAs(t, err, &full)
	require.Equal(t, "modules", full.Quota)
	_, err = put("one", "", "")
	require.NoError(t, err, "a module that the tenant has is not counted again")

	m, err := acme.Module(ctx, one)
	require.NoError(t, err)
	require.Equal(t, "1.0", m.Names[0].Version)
	require.JSONEq(t, `{"a":1}`, string(m.About))
	for version, want := range map[string]string{"1.0": one, "2.0": two, "": two} {
		name, err := acme.ModuleName(ctx, "redact", version)
		require.NoError(t, err)
		require.Equal(t, want, name.Digest, version)
	}

	_, err = acme.PutAgent(ctx, "a", []byte("x"), []string{one})
	require.NoError(t, err)
	require.ErrorIs(t, acme.DeleteModule(ctx, one), store.ErrInUse)
	require.NoError(t, acme.DeleteAgent(ctx, "a"))
	require.NoError(t, acme.DeleteModule(ctx, one))
	require.ErrorIs(t, acme.DeleteModule(ctx, one), store.ErrNoModule)
	_, err = acme.ModuleName(ctx, "redact", "1.0")
	require.ErrorIs(t, err, store.ErrNoModule)
	_, err = put(strings.Repeat("x", 98), "", "")
	require.ErrorAs(t, err, &full)
	require.Equal(t, "storage_bytes", full.Quota)

	n, err := s.DeleteUnusedModules(ctx, time.Hour)
	require.NoError(t, err)
	require.Zero(t, n, "the modules are too young")
	n, err = s.DeleteUnusedModules(ctx, -time.Hour)
	require.NoError(t, err)
	require.Equal(t, int64(3), n, "one, three and the long one")
	_, err = s.Module(ctx, two)
	require.NoError(t, err)
}

func testBlocks(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	require.NoError(t, s.Block(ctx, "d", "it leaks"))
	require.NoError(t, s.Block(ctx, "d", "it leaks keys"))
	list, err := again(t, where).Blocked(ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "it leaks keys", list[0].Reason)
	require.NoError(t, s.Unblock(ctx, "d"))
	require.ErrorIs(t, s.Unblock(ctx, "d"), store.ErrNoModule)
}

func testAgents(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	for i, want := range []int64{1, 1, 2, 3} {
		a, err := acme.PutAgent(ctx, "a", []byte([]string{"x", "x", "y", "x"}[i]), []string{"d"})
		require.NoError(t, err)
		require.Equal(t, want, a.Version, "a version equal to the newest is not stored")
	}
	_, err := acme.PutAgent(ctx, "b", []byte("b"), nil)
	require.NoError(t, err)
	a, err := acme.Agent(ctx, "a", 2)
	require.NoError(t, err)
	require.Equal(t, "y", string(a.Body))
	_, err = acme.Agent(ctx, "a", 4)
	require.ErrorIs(t, err, store.ErrNoAgent)
	list, _, err := acme.Agents(ctx, store.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []any{"a", int64(3), []string{"d"}}, []any{list[0].Name, list[0].Version, list[0].Modules})
	for name, want := range map[string]bool{"a": true, "c": false} {
		has, err := acme.HasAgent(ctx, name)
		require.NoError(t, err)
		require.Equal(t, want, has, name)
	}
	require.ErrorIs(t, acme.DeleteAgent(ctx, "c"), store.ErrNoAgent)
	for i := range 105 {
		_, err := acme.PutAgent(ctx, "b", fmt.Append(nil, i), nil)
		require.NoError(t, err)
	}
	_, err = acme.Agent(ctx, "b", 6)
	require.ErrorIs(t, err, store.ErrNoAgent, "the oldest of 101 versions is deleted")
	_, err = acme.Agent(ctx, "b", 7)
	require.NoError(t, err)
}

// testTenantQuotas checks the quota of concurrent runs with runs that start on two servers at
// once, and the daily quotas of runs, tokens and fuel.
func testTenantQuotas(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme",
		store.TenantQuota{ConcurrentRuns: 3, RunsPerDay: 5, TokensPerDay: 1000, FuelPerDay: 50})
	over := func(err error, quota string) {
		t.Helper()
		var full *store.QuotaError
		require.ErrorAs(t, err, &full)
		require.Equal(t, quota, full.Quota)
		require.True(t, full.RetryAfter > 0 && full.RetryAfter <= 24*time.Hour)
	}
	var in, out atomic.Int64
	var wg sync.WaitGroup
	for machine := range 2 {
		other := again(t, where).Tenant("acme")
		for i := range 5 {
			wg.Go(func() {
				if err := other.AdmitRun(ctx, fmt.Sprint("r", machine, i), "a", true); err == nil {
					in.Add(1)
				} else {
					out.Add(1)
					over(err, "concurrent_runs")
				}
			})
		}
	}
	wg.Wait()
	require.Equal(t, []int64{3, 7}, []int64{in.Load(), out.Load()})

	for machine := range 2 {
		for i := range 5 {
			require.NoError(t, acme.ReleaseRun(ctx, fmt.Sprint("r", machine, i)))
		}
	}
	require.NoError(t, acme.AdmitRun(ctx, "s", "a", true))
	require.NoError(
		t,
		s.Create(ctx, &journal.Creation{ID: "s", Tenant: "acme", Agent: "a", Owner: "me", LeaseTTL: lease, Log: []byte("x")}),
		"replaces its admission",
	)
	require.NoError(t, acme.AdmitRun(ctx, "t", "a", true))
	over(acme.AdmitRun(ctx, "u", "a", true), "runs_per_day")
	require.NoError(t, acme.AdmitRun(ctx, "u", "a", false), "a resumed run is not counted again")
	over(acme.AdmitRun(ctx, "v", "a", false), "concurrent_runs")
	require.NoError(t, acme.AdmitRun(ctx, "u", "a", false), "its own place is its own")
	require.NoError(t, acme.ReleaseRun(ctx, "u"))

	today := store.Day(time.Now())
	require.NoError(
		t,
		acme.AddUsage(ctx, store.Usage{Day: today, Agent: "a", PromptTokens: 900, CompletionTokens: 100},
			store.Usage{Day: today, Agent: "a", Module: "m", Fuel: 20}),
	)
	over(acme.AdmitRun(ctx, "u", "a", false), "tokens_per_day")
	_, err := s.UpdateTenant(ctx, "acme", &store.TenantUpdate{Quota: &store.TenantQuota{FuelPerDay: 50}})
	require.NoError(t, err)
	require.NoError(t, acme.AdmitRun(ctx, "u", "a", false))
	require.NoError(t, acme.AddUsage(ctx, store.Usage{Day: today, Agent: "b", Module: "m", Fuel: 30}))
	over(acme.AdmitRun(ctx, "u", "a", false), "fuel_per_day")

	rows, _, err := acme.Usage(ctx, today, today, store.Page{})
	require.NoError(t, err)
	var total store.Usage
	for _, r := range rows {
		total.Add(r)
	}
	require.Len(t, rows, 3)
	require.Equal(t, store.Usage{Runs: 5, PromptTokens: 900, CompletionTokens: 100, Fuel: 50}, total)
}
