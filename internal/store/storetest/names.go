package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// testNames checks that lists are filtered by name, page by page and ignoring case. Characters that
// are special in patterns must have no special meaning in a name.
func testNames(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	names := []string{"billing-clerk", "Clerk_1", "clerkx1", "other", `100%`, `a\b`}
	for i, name := range names {
		_, err := s.CreateTenant(ctx, fmt.Sprint("t", i), name, store.TenantQuota{}, nil)
		require.NoError(t, err)
		_, _, err = acme.CreateKey(ctx, &store.KeyOptions{Name: name})
		require.NoError(t, err)
		_, err = acme.PutAgent(ctx, name, []byte("x"), nil)
		require.NoError(t, err)
		m := &store.TenantModule{Digest: fmt.Sprintf("%064x", i), Kind: "wasm", Size: 1, About: []byte(`{}`)}
		require.NoError(t, acme.PutModule(ctx, m, name, "1"))
		require.NoError(t, acme.PutModule(ctx, m, name, "2"))
	}
	require.NoError(t, acme.PutModule(ctx,
		&store.TenantModule{Digest: fmt.Sprintf("%064x", 99), Kind: "wasm", Size: 1, About: []byte(`{}`)}, "", ""))
	lists := map[string]func(store.Page) ([]string, *store.Position, error){
		"keys": func(p store.Page) ([]string, *store.Position, error) {
			rows, next, err := acme.Keys(ctx, p)
			return namesOf(rows, func(k store.Key) string { return k.Name }), next, err
		},
		"agents": func(p store.Page) ([]string, *store.Position, error) {
			rows, next, err := acme.Agents(ctx, p)
			return namesOf(rows, func(a store.StoredAgent) string { return a.Name }), next, err
		},
		"modules": func(p store.Page) ([]string, *store.Position, error) {
			rows, next, err := acme.Modules(ctx, p)
			return namesOf(rows, func(m store.TenantModule) string { return m.Names[0].Name }), next, err
		},
		"tenants": func(p store.Page) ([]string, *store.Position, error) {
			rows, next, err := s.Tenants(ctx, p)
			return namesOf(rows, func(i store.TenantInfo) string { return i.Name }), next, err
		},
	}
	for list, read := range lists {
		for text, want := range map[string][]string{
			"CLERK": {"Clerk_1", "billing-clerk", "clerkx1"}, "k_1": {"Clerk_1"}, "%": {"100%"}, `\`: {`a\b`}, "nobody": nil,
			"other": {"other"},
		} {
			got := collect(t, 1, nil, func(p store.Page) ([]string, *store.Position, error) {
				p.Name = text
				return read(p)
			}, func(name string) string { return name })
			slices.Sort(got)
			require.Equal(t, want, got, "%s with %q", list, text)
		}
	}
	rows, _, err := s.Tenants(ctx, store.Page{Name: "ACM"})
	require.NoError(t, err)
	require.Equal(t, "acme", rows[0].ID, "the id of a tenant is a name, too")
}

func namesOf[T any](rows []T, name func(T) string) (names []string) {
	for _, r := range rows {
		names = append(names, name(r))
	}
	return names
}
