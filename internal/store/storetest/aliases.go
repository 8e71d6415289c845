package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// testAliases checks the resolution of references to agents, the moves of aliases, and that the
// versions that aliases refer to keep their rows and their modules.
func testAliases(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	acme, beta := newTenant(t, s, "acme", store.TenantQuota{}), newTenant(t, s, "beta", store.TenantQuota{})
	put := func(n int) {
		_, err := acme.PutAgent(ctx, "a", fmt.Append(nil, n), []string{fmt.Sprint("d", n)})
		require.NoError(t, err)
	}
	for n := range 3 {
		put(n + 1)
	}
	named := func(ref store.AgentRef) int64 {
		t.Helper()
		ref.Name = "a"
		a, err := acme.AgentOf(ctx, ref)
		require.NoError(t, err)
		snapshot, err := acme.AgentSnapshot(ctx, ref, "", 0)
		require.NoError(t, err)
		require.Equal(t, a, snapshot.Agent)
		return a.Version
	}
	by := store.AliasChange{By: "key k", Reason: "why"}
	require.Equal(t, int64(3), named(store.AgentRef{}), "without aliases, the newest")
	for _, version := range []int64{1, 1, 2} {
		a, err := acme.SetAlias(ctx, "a", "stable", version, by)
		require.NoError(t, err)
		require.Equal(t, version, a.Version)
	}
	_, err := again(t, where).Tenant("acme").SetAlias(ctx, "a", "next", 3, by)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 2, 3, 1}, []int64{named(store.AgentRef{}), named(store.AgentRef{Alias: "stable"}),
		named(store.AgentRef{Alias: "next"}), named(store.AgentRef{Version: 1})})
	for digest, want := range map[string][]store.ModuleUser{
		"d1": nil, // no alias refers to the version any more
		"d2": {{Agent: "a", Newest: 3, Versions: []int64{2}, Aliases: []string{"stable"}}},
		"d3": {{Agent: "a", Newest: 3, Versions: []int64{3}, Aliases: []string{"next"}}},
	} {
		users, err := acme.ModuleUsers(ctx, digest, 10)
		require.NoError(t, err)
		require.Equal(t, want, users, digest)
		users, err = beta.ModuleUsers(ctx, digest, 10)
		require.NoError(t, err)
		require.Empty(t, users)
	}
	_, err = acme.AgentOf(ctx, store.AgentRef{Name: "a", Alias: "none"})
	require.ErrorIs(t, err, store.ErrNoAlias)
	for _, tenant := range []*store.Tenant{acme, beta} {
		_, err = tenant.AgentOf(ctx, store.AgentRef{Name: "b", Alias: "stable"})
		require.ErrorIs(t, err, store.ErrNoAgent)
	}
	for _, version := range []int64{4, 0, -1} {
		_, err = acme.SetAlias(ctx, "a", "stable", version, by)
		require.ErrorIs(t, err, store.ErrNoAgent, version)
		require.EqualError(t, err, "agent a: no such version; its newest version is 3")
	}
	_, err = beta.SetAlias(ctx, "a", "stable", 1, by)
	require.ErrorIs(t, err, store.ErrNoAgent)
	require.ErrorIs(t, beta.DeleteAlias(ctx, "a", "stable", by), store.ErrNoAlias)
	_, _, err = beta.Aliases(ctx, "a", store.Page{})
	require.ErrorIs(t, err, store.ErrNoAgent)

	moves, next, err := acme.AliasMoves(ctx, "a", "stable", store.Page{Limit: 1})
	require.NoError(t, err)
	require.Equal(
		t,
		[]any{int64(1), int64(2), "key k", "why"},
		[]any{moves[0].From, moves[0].To, moves[0].By, moves[0].Reason},
	)
	moves, next, err = acme.AliasMoves(ctx, "a", "stable", store.Page{Limit: 1, After: next})
	require.NoError(t, err)
	require.Nil(t, next)
	require.Equal(t, []int64{0, 1}, []int64{moves[0].From, moves[0].To}, "a move to the same version is none")

	for n := range 110 {
		put(n + 10)
	}
	require.Equal(t, int64(2), named(store.AgentRef{}), "the version of an alias is not deleted")
	_, err = acme.Agent(ctx, "a", 1)
	require.ErrorIs(t, err, store.ErrNoAgent)
	requireUsed(t, s, acme, "d2", "in use by version 2 of agent a; move alias stable, or delete the agent first")
	requireUsed(
		t,
		s,
		acme,
		"d119",
		"in use by version 113 of agent a; store a version without the module, or delete the agent first",
	)
	rollout := &store.Rollout{ID: "ro_1", Agent: "a", Alias: "stable", Canary: 113, Plan: []byte(`{}`)}
	require.NoError(t, acme.CreateRollout(ctx, rollout))
	requireUsed(
		t,
		s,
		acme,
		"d2",
		"in use by version 2 of agent a; end rollout ro_1 and move alias stable, or delete the agent first",
	)
	requireUsed(
		t,
		s,
		acme,
		"d119",
		"in use by version 113 of agent a; store a version without the module and end rollout ro_1, or delete the agent first",
	)
	_, err = acme.UpdateRollout(
		ctx,
		"ro_1",
		func(r *store.Rollout, _ func(store.Arm, int) ([]store.RolloutRun, error)) error {
			r.Status = store.RolloutAborted
			return nil
		},
	)
	require.NoError(t, err)
	require.NoError(t, acme.DeleteAlias(ctx, "a", "stable", by))
	requireUsed(t, s, acme, "d2", "")
	put(200)
	_, err = acme.Agent(ctx, "a", 2)
	require.ErrorIs(t, err, store.ErrNoAgent)
	list, _, err := acme.Aliases(ctx, "a", store.Page{})
	require.NoError(t, err)
	require.Len(t, list, 1)

	_, err = acme.PutAgent(ctx, "b", []byte("x"), nil)
	require.NoError(t, err)
	for name, aliases := range map[string][]string{"": {"next"}, "b": nil} {
		agents, _, err := acme.Agents(ctx, store.Page{Name: name})
		require.NoError(t, err)
		var got []string
		for _, a := range agents {
			for _, alias := range a.Aliases {
				require.Equal(t, []any{"a", int64(3)}, []any{a.Name, alias.Version})
				got = append(got, alias.Name)
			}
		}
		require.Equal(t, aliases, got)
	}

	for n := range 49 {
		_, err = acme.SetAlias(ctx, "a", fmt.Sprint("alias-", n), 100, by)
		require.NoError(t, err)
	}
	var full *store.QuotaError
	_, err = acme.SetAlias(ctx, "a", "one-more", 100, by)
	require.ErrorAs(t, err, &full)
	require.Equal(t, "aliases", full.Quota)
	require.NoError(t, acme.DeleteAgent(ctx, "a"))
	put(1)
	list, _, err = acme.Aliases(ctx, "a", store.Page{})
	require.NoError(t, err)
	require.Empty(t, list, "an agent of the same name has no aliases of the deleted one")
}

// requireUsed checks that a module cannot be deleted, for a reason with which the error ends, or that it can if
// why is empty.
func requireUsed(t *testing.T, s store.Store, n *store.Tenant, digest, why string) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, n.PutModule(ctx, &store.TenantModule{Digest: digest, Kind: "wasm", About: []byte(`{}`)}, "", ""))
	err := n.DeleteModule(ctx, digest)
	if why == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, store.ErrInUse)
	require.EqualError(t, err, "sha256:"+digest+": "+why)
}
