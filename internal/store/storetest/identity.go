package storetest

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

func testMembers(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme, beta := newTenant(t, s, "acme", store.TenantQuota{}), newTenant(t, s, "beta", store.TenantQuota{})
	ann, err := acme.AddMember(ctx, &store.Member{Email: "ann@acme.example", Role: "owner"})
	require.NoError(t, err)
	bob, err := acme.AddMember(ctx, &store.Member{Issuer: "https://id.example", Subject: "bob", Role: "viewer"})
	require.NoError(t, err)
	for _, again := range []*store.Member{{Email: "ann@acme.example"}, {Issuer: "https://id.example", Subject: "bob"}} {
		_, err = acme.AddMember(ctx, again)
		require.ErrorIs(t, err, store.ErrExists)
		_, err = beta.AddMember(ctx, again)
		require.NoError(t, err, "a person may be a member of several tenants")
	}
	_, err = acme.AddMember(ctx, &store.Member{Issuer: "https://other.example", Subject: "bob", Role: "viewer"})
	require.NoError(t, err, "a subject belongs to its issuer")

	require.ErrorIs(t, acme.RemoveMember(ctx, ann.ID, "owner"), store.ErrInUse)
	_, err = acme.SetMemberRole(ctx, ann.ID, "viewer", "owner")
	require.ErrorIs(t, err, store.ErrInUse)
	_, err = acme.SetMemberRole(ctx, bob.ID, "owner", "owner")
	require.NoError(t, err)
	require.ErrorIs(t, beta.RemoveMember(ctx, ann.ID, "owner"), store.ErrNoMember)
	require.NoError(t, acme.RemoveMember(ctx, ann.ID, "owner"))
	require.ErrorIs(t, acme.RemoveMember(ctx, ann.ID, "owner"), store.ErrNoMember)

	// Of two owners who remove each other at the same time, one remains.
	eve, err := acme.AddMember(ctx, &store.Member{Email: "eve@acme.example", Role: "owner"})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, id := range []string{bob.ID, eve.ID} {
		wg.Go(func() { _ = acme.RemoveMember(context.WithoutCancel(ctx), id, "owner") })
	}
	wg.Wait()
	members, _, err := acme.Members(ctx, store.Page{})
	require.NoError(t, err)
	owners := 0
	for _, m := range members {
		if m.Role == "owner" {
			owners++
		}
	}
	require.Equal(t, 1, owners)
	require.NoError(t, s.DeleteTenant(ctx, "acme"))
	members, _, err = acme.Members(ctx, store.Page{})
	require.NoError(t, err)
	require.Empty(t, members)
}

func testGroupRoles(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	newTenant(t, s, "acme", store.TenantQuota{})
	one, err := s.MapGroup(ctx, "eng", "acme", "developer")
	require.NoError(t, err)
	two, err := s.MapGroup(ctx, "eng", "acme", "viewer")
	require.NoError(t, err)
	require.Equal(t, one.ID, two.ID)
	_, err = s.MapGroup(ctx, "eng", store.Operator, "support")
	require.NoError(t, err)
	_, err = s.MapGroup(ctx, "eng", "none", "viewer")
	require.ErrorIs(t, err, store.ErrNoTenant)
	all, _, err := s.GroupRoles(ctx, store.Page{})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.NoError(t, s.UnmapGroup(ctx, one.ID))
	require.ErrorIs(t, s.UnmapGroup(ctx, one.ID), store.ErrNoMember)
}

// actions returns the actions in a tenant's audit log that a filter selects, the oldest first.
func actions(t *testing.T, tenant *store.Tenant, f *store.AuditFilter) string {
	t.Helper()
	var out []string
	for {
		f.Limit = 2
		records, next, err := tenant.AuditLog(t.Context(), f)
		require.NoError(t, err)
		for _, r := range records {
			out = append([]string{r.Action}, out...)
		}
		if next == nil {
			return strings.Join(out, " ")
		}
		f.After = next
	}
}

func testAudit(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Keyring: newKeyring(t, "a")})
	ctx := store.WithActor(t.Context(),
		&store.Actor{Tenant: "acme", ID: "key:a", Name: "ci", Address: "192.0.2.1", Request: "req_1"})
	operator := store.WithActor(t.Context(), &store.Actor{ID: "user:root", Address: "192.0.2.9", Request: "req_2"})
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	beta := newTenant(t, s, "beta", store.TenantQuota{})
	k, _, err := acme.CreateKey(ctx, &store.KeyOptions{Name: "ci", Role: "owner"})
	require.NoError(t, err)
	require.NoError(t, acme.SetSecret(ctx, "openai", []byte("hush")))
	_, err = acme.PutAgent(ctx, "clerk", []byte("x"), nil)
	require.NoError(t, err)
	_, err = acme.PutAgent(ctx, "clerk", []byte("x"), nil)
	require.NoError(t, err, "it changes nothing, and has no record")
	require.Error(t, acme.DeleteAgent(ctx, "none"))
	require.NoError(t, acme.DeleteSecret(ctx, "openai"))
	require.NoError(t, acme.RevokeKey(operator, k.ID))
	name := "Acme"
	_, err = s.UpdateTenant(operator, "acme", &store.TenantUpdate{Name: &name, Quota: &store.TenantQuota{Modules: 3}})
	require.NoError(t, err)
	require.NoError(t, s.Block(operator, strings.Repeat("0", 64), "it leaks"))

	require.Equal(t, "tenant.create key.create secret.set agent.put secret.delete key.revoke tenant.update",
		actions(t, acme, &store.AuditFilter{}))
	require.Equal(t, "tenant.create", actions(t, beta, &store.AuditFilter{}))
	require.Equal(t, "tenant.create tenant.create key.revoke tenant.update module.block",
		actions(t, s.Tenant(store.Operator), &store.AuditFilter{}))
	require.Equal(t, "key.create secret.set agent.put secret.delete", actions(t, acme, &store.AuditFilter{Actor: "key:a"}))
	require.Equal(t, "key.create key.revoke", actions(t, acme, &store.AuditFilter{Target: k.ID}))
	require.Equal(t, "key.revoke", actions(t, acme, &store.AuditFilter{Target: k.ID, Action: "key.revoke"}))
	require.Empty(t, actions(t, acme, &store.AuditFilter{To: time.Now().Add(-time.Hour)}))

	records, _, err := acme.AuditLog(ctx, &store.AuditFilter{})
	require.NoError(t, err)
	for i, r := range records {
		require.EqualValues(t, len(records)-i, r.Seq, "the numbers have no gaps")
		require.NotContains(t, string(r.Detail), "hush")
	}
	require.Equal(
		t,
		store.Actor{Tenant: "acme", ID: "operator", Request: "req_2"},
		records[0].Actor,
		"who of the operator is not shown",
	)
	var d struct{ Before, After struct{ Name string } }
	require.NoError(t, json.Unmarshal(records[0].Detail, &d))
	require.Equal(t, "Acme", d.After.Name)
	require.Equal(t, "192.0.2.1", records[5].Address)
	own, _, err := s.Tenant(store.Operator).AuditLog(ctx, &store.AuditFilter{Target: "acme/" + k.ID})
	require.NoError(t, err)
	require.Equal(t, "user:root", own[0].ID)

	// The texts of a record are truncated to their maximum lengths.
	require.NoError(
		t,
		acme.Audit(store.WithActor(ctx, &store.Actor{Tenant: "acme", ID: strings.Repeat("é", 1000) + "\x00\xff"}),
			"x", strings.Repeat("x", 1000), strings.Repeat("x", 10_000)),
	)
	for _, age := range []time.Duration{time.Hour, 365 * 24 * time.Hour} {
		n, err := s.PruneAudit(ctx, age)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	require.Eventually(t, func() bool {
		_, err = s.PruneAudit(ctx, time.Millisecond)
		require.NoError(t, err)
		return actions(t, acme, &store.AuditFilter{}) == "x"
	}, 10*time.Second, time.Millisecond, "the newest record stays")
	require.NoError(t, acme.SetSecret(ctx, "openai", []byte("hush")))
	records, _, err = acme.AuditLog(ctx, &store.AuditFilter{Page: store.Page{Limit: 1}})
	require.NoError(t, err)
	require.EqualValues(t, 9, records[0].Seq)

	// Concurrent writers leave no gaps.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, _, _ = acme.CreateKey(operator, &store.KeyOptions{})
			_, _, _ = beta.CreateKey(operator, &store.KeyOptions{})
		})
	}
	wg.Wait()
	records, _, err = s.Tenant(store.Operator).AuditLog(ctx, &store.AuditFilter{})
	require.NoError(t, err)
	for i, r := range records {
		require.EqualValues(t, records[0].Seq-int64(i), r.Seq)
	}
	require.GreaterOrEqual(t, len(records), 16)
}
