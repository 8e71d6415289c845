package module

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestReplayOwnCalls checks that a replay answers a module's own calls from the
// recording, without an agent and whatever is granted.
func TestReplayOwnCalls(t *testing.T) {
	t.Parallel()
	mw := configure(t, load(t, "own.wasm", Limits{}), `{"name":"echo"}`)
	for _, recorded := range []Visit{
		{Hook: abi.HookBeforeAgent, Calls: []HostCall{{Name: "tool", Bytes: []Blob{Blob(`{"name":"echo"}`)}, Reply: Blob(`{"result":{"content":"hi"}}`)}}},
		{Hook: abi.HookBeforeModelRewriteState, Calls: []HostCall{{Name: "model", Bytes: []Blob{Blob(`{"name":"echo"}`)}, Error: &abi.Error{Code: abi.CodeModel, Message: "no"}}}},
	} {
		s := &session{mw: mw, entry: "guard", run: "run-7", stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}
		recorded.Input = Blob(`{}`)
		v, err := s.replay(t.Context(), &recorded)
		require.NoError(t, err)
		require.Equal(t, 1, v.replay.calls)

		recorded.Calls[0].Bytes = []Blob{Blob(`{"name":"other"}`)}
		_, err = s.replay(t.Context(), &recorded)
		require.ErrorIs(t, err, errDiverged, "it asked something else than what was recorded")
		s.Close()
	}
}

// TestOwnCallsWhileBuilding checks that there is nothing to call while an image
// is built.
func TestOwnCallsWhileBuilding(t *testing.T) {
	t.Parallel()
	var failed abi.Error
	for _, name := range []string{"model", "tool"} {
		v := &visit{}
		for _, row := range nativeImports() {
			if row.name != name {
				continue
			}
			_, err := row.reply(t.Context(), v, nil, nil)
			b, _ := abi.Marshal(err)
			require.NoError(t, json.Unmarshal(b, &failed))
			require.Equal(t, abi.CodeUnavailable, failed.Code)
		}
	}
}
