package storetest

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
)

// newKeyring creates a keyring with a key for each name, derived from the name.
func newKeyring(t *testing.T, names ...string) *keyring.Keyring {
	t.Helper()
	text := "# keys\n"
	for _, name := range names {
		text += name + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(name), 32)) + "\n"
	}
	r, err := keyring.Parse(text)
	require.NoError(t, err)
	return r
}

func testSecrets(t *testing.T, open Opener) {
	s, where := open(t, &store.Options{Keyring: newKeyring(t, "a")})
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	require.NoError(t, acme.SetSecret(ctx, "openai", []byte("sk-1")))
	require.NoError(t, acme.SetSecret(ctx, "openai", []byte("sk-2")))
	got, err := acme.Secret(ctx, "openai")
	require.NoError(t, err)
	require.Equal(t, "sk-2", string(got))
	_, err = acme.Secret(ctx, "other")
	require.ErrorIs(t, err, store.ErrNoSecret)

	with := func(r *keyring.Keyring, missing ...string) *store.Tenant {
		s, err := store.Open(ctx, where, &store.Options{Keyring: r})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		names, err := s.MissingKeys(ctx)
		require.NoError(t, err)
		require.Equal(t, missing, names)
		return s.Tenant("acme")
	}
	renamed, err := keyring.Parse("a:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("b"), 32)))
	require.NoError(t, err)
	none, other, both, another := with(nil, "a"), with(newKeyring(t, "b"), "a"), with(newKeyring(t, "b", "a")), with(
		renamed,
		"a",
	)
	for _, tenant := range []*store.Tenant{none, other, another} {
		_, err = tenant.Secret(ctx, "openai")
		require.ErrorIs(t, err, keyring.ErrNoKey)
	}
	require.ErrorIs(t, none.SetSecret(ctx, "x", nil), keyring.ErrNoKey)
	got, err = both.Secret(ctx, "openai")
	require.NoError(t, err)
	require.NoError(t, both.SetSecret(ctx, "openai", got))
	got, err = other.Secret(ctx, "openai")
	require.NoError(t, err, "setting a secret again seals it with the newest key")
	require.Equal(t, "sk-2", string(got))
	list, _, err := acme.Secrets(ctx, store.Page{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "b", list[0].SealedBy)
	require.NoError(t, acme.DeleteSecret(ctx, "openai"))
	require.ErrorIs(t, acme.DeleteSecret(ctx, "openai"), store.ErrNoSecret)
}
