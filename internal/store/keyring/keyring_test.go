package keyring

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
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
		_, err := Parse(text)
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
	r, err := Parse("a:" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	require.NoError(t, err)
	by, sealed, err := Seal(r, []byte("sk-1"), "acme\x00openai")
	require.NoError(t, err)
	require.False(t, bytes.Contains(sealed, []byte("sk-1")))
	_, err = Open(r, by, sealed, "acme\x00openai")
	require.NoError(t, err)
	for _, place := range []string{"beta\x00openai", "acme\x00other", ""} {
		_, err = Open(r, by, sealed, place)
		require.Error(t, err, place)
	}
	sealed[len(sealed)-1]++
	_, err = Open(r, by, sealed, "acme\x00openai")
	require.Error(t, err)
	_, err = Open(r, by, sealed[:3], "acme\x00openai")
	require.Error(t, err)
}
