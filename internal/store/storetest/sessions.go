package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

func testSessions(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	ann := store.Person{
		Issuer:  "https://id.example",
		Subject: "1",
		Email:   "ann@acme.example",
		Groups:  []string{"eng", "none"},
	}
	signIn := func(state string) (string, []store.TenantRole, error) {
		return s.SignIn(ctx, &store.NewSession{Person: ann, State: []byte(state), TTL: time.Hour})
	}
	_, _, err := signIn("a")
	require.ErrorIs(t, err, store.ErrNoMember)
	_, err = acme.AddMember(ctx, &store.Member{Email: "ann@acme.example", Role: "owner"})
	require.NoError(t, err)
	_, err = s.MapGroup(ctx, "eng", store.Operator, "support")
	require.NoError(t, err)
	token, roles, err := signIn("a")
	require.NoError(t, err)
	require.Len(t, roles, 2)
	require.Equal(t, "owner", roles[0].Role)
	_, _, err = signIn("a")
	require.ErrorIs(t, err, store.ErrExists, "a state is used once")

	other := again(t, where)
	p, roles, err := other.Session(ctx, token, time.Hour)
	require.NoError(t, err)
	require.Equal(t, []string{"eng"}, p.Groups, "only groups with roles are stored")
	require.Len(t, roles, 2)
	for _, bad := range []string{"", "ars_", token[4:], token + "a", token[:len(token)-1], "ars_" + token} {
		_, _, err = s.Session(ctx, bad, time.Hour)
		require.ErrorIs(t, err, store.ErrNoSession)
	}
	require.Eventually(t, func() bool {
		_, _, err = s.Session(ctx, token, time.Millisecond)
		return err != nil
	}, 10*time.Second, 2*time.Millisecond, "idle")
	require.ErrorIs(t, err, store.ErrNoSession)

	// Another subject with the same address is no member.
	eve := ann
	eve.Subject, eve.Groups = "2", nil
	roles, err = s.Roles(ctx, &eve)
	require.NoError(t, err)
	require.Empty(t, roles)
	roles, err = s.Roles(ctx, &ann)
	require.NoError(t, err)
	require.Len(t, roles, 2)
	_, err = acme.AddMember(ctx, &store.Member{Email: "bob@acme.example", Role: "viewer"})
	require.NoError(t, err)
	roles, err = s.Roles(ctx, &store.Person{Issuer: "https://id.example", Subject: "3", Email: "bob@acme.example"})
	require.NoError(t, err)
	require.Equal(t, "viewer", roles[0].Role)

	second, _, err := signIn("b")
	require.NoError(t, err)
	require.NoError(t, s.SignOut(ctx, token, false))
	_, _, err = other.Session(ctx, token, time.Hour)
	require.ErrorIs(t, err, store.ErrNoSession)
	_, _, err = other.Session(ctx, second, time.Hour)
	require.NoError(t, err)
	require.NoError(t, s.SignOut(ctx, second, true))
	_, _, err = other.Session(ctx, second, time.Hour)
	require.ErrorIs(t, err, store.ErrNoSession)

	third, _, err := signIn("c")
	require.NoError(t, err)
	for i := range 50 {
		_, _, err = signIn(string(rune('d' + i)))
		require.NoError(t, err)
	}
	_, _, err = s.Session(ctx, third, time.Hour)
	require.ErrorIs(t, err, store.ErrNoSession, "a person has at most 50 sessions")
}
