package abi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Large texts must arrive unchanged whatever piece boundaries they cross.
func TestCloneLarge(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("x", pieceBytes), strings.Repeat("x", pieceBytes+1), strings.Repeat("ab\n", pieceBytes),
		strings.Repeat("é", pieceBytes), "x" + strings.Repeat("é", pieceBytes), "xy" + strings.Repeat("😀", pieceBytes/2), strings.Repeat("\x01", pieceBytes+3),
		strings.Repeat("\xff", pieceBytes+1), strings.Repeat("\x80", pieceBytes) + "\u2028",
	} {
		want, err := json.Marshal(text)
		require.NoError(t, err)
		got, err := Marshal(&Message{Role: RoleUser, Content: Text(text)})
		require.NoError(t, err)
		require.True(t, bytes.Contains(got, want), "%.20q", text)

		var out Message
		_, err = Decode(got, &out)
		require.NoError(t, err)
		var valid string
		require.NoError(t, json.Unmarshal(want, &valid))
		require.True(t, valid == out.Content.String(), "%.20q", text)

		var kept Custom
		_, err = Decode([]byte(`{"name":"n","data":`+string(want)+`}`), &kept)
		require.NoError(t, err)
		require.True(t, string(kept.Data) == string(want), "%.20q", text)
		again, err := Marshal(&kept)
		require.NoError(t, err)
		require.True(t, bytes.Contains(again, want), "%.20q", text)
	}
	require.Nil(t, Clone(nil))
	require.Equal(t, []byte{}, Clone([]byte{}))
}
