package abijson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// pieceBytes is the maximum number of bytes that jsoncodec copies at once.
const pieceBytes = 256 << 10

// TestCloneLarge checks that large text is unchanged after encoding and decoding, wherever the
// boundaries of the copied pieces are.
func TestCloneLarge(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("x", pieceBytes), strings.Repeat("x", pieceBytes+1), strings.Repeat("ab\n", pieceBytes),
		strings.Repeat("é", pieceBytes), "x" + strings.Repeat("é", pieceBytes), "xy" + strings.Repeat("😀", pieceBytes/2),
		strings.Repeat("\x01", pieceBytes+3), strings.Repeat("\xff", pieceBytes+1),
		strings.Repeat("\x80", pieceBytes) + "\u2028",
	} {
		want, err := json.Marshal(text)
		require.NoError(t, err)
		got, err := Marshal(&abi.Message{Role: abi.RoleUser, Content: abi.Text(text)})
		require.NoError(t, err)
		require.True(t, bytes.Contains(got, want), "%.20q", text)

		var out abi.Message
		_, err = Decode(got, &out)
		require.NoError(t, err)
		var valid string
		require.NoError(t, json.Unmarshal(want, &valid))
		require.True(t, valid == out.Content.String(), "%.20q", text)

		var kept contract.Custom
		_, err = Decode([]byte(`{"name":"n","data":`+string(want)+`}`), &kept)
		require.NoError(t, err)
		require.True(t, string(kept.Data) == string(want), "%.20q", text)
		again, err := Marshal(&kept)
		require.NoError(t, err)
		require.True(t, bytes.Contains(again, want), "%.20q", text)
	}
	require.Nil(t, jsoncodec.Clone(nil))
	require.Equal(t, []byte{}, jsoncodec.Clone([]byte{}))
}
