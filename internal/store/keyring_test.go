package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseKeyring(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for text, want := range map[string]string{
		"":                           "there are none",
		"# only a comment":           "there are none",
		key:                          "name:key",
		"Main:" + key:                "name:key",
		"main:" + key[:20]:           "32 bytes",
		"main:?":                     "32 bytes",
		"a:" + key + "\na:" + key:    "two keys are named a",
		"a:" + key + "\n\n b:" + key: "",
	} {
		_, err := ParseKeyring(text)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), key[:20])
	}
}

// TestSealedSecretIsBoundToRow checks that sealed secrets cannot be opened in other rows.
func TestSealedSecretIsBoundToRow(t *testing.T) {
	t.Parallel()
	r, err := ParseKeyring("a:" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	require.NoError(t, err)
	by, sealed, err := r.seal([]byte("sk-1"), "acme\x00openai")
	require.NoError(t, err)
	require.False(t, bytes.Contains(sealed, []byte("sk-1")))
	_, err = r.open(by, sealed, "acme\x00openai")
	require.NoError(t, err)
	for _, place := range []string{"beta\x00openai", "acme\x00other", ""} {
		_, err = r.open(by, sealed, place)
		require.Error(t, err, place)
	}
	sealed[len(sealed)-1]++
	_, err = r.open(by, sealed, "acme\x00openai")
	require.Error(t, err)
	_, err = r.open(by, sealed[:3], "acme\x00openai")
	require.Error(t, err)
}

// TestUnscopedStatementsFail checks that a tenant's statements fail unless they select the rows of
// the tenant.
func TestUnscopedStatementsFail(t *testing.T) {
	t.Parallel()
	opened, err := Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), nil)
	require.NoError(t, err)
	defer opened.Close()
	for _, sql := range []string{`SELECT name FROM agents`, `SELECT name FROM agents WHERE tenant = $2`, `SELECT name FROM agents WHERE name = $1`} {
		err := opened.Tenant(Operator).view(t.Context(), func(t scoped) error {
			return t.Query(func(func(...any) error) error { return nil }, sql, "x")
		})
		require.ErrorContains(t, err, "not scoped", sql)
	}
	err = opened.Tenant(Operator).update(context.Background(), func(t scoped) error {
		_, err := t.Exec(`DELETE FROM agents`)
		return err
	})
	require.ErrorContains(t, err, "not scoped")
}
