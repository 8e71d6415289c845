package module

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// TestReplayOwnCalls checks that a replay answers the host calls "model" and "tool" from the
// recording, without an agent and without regard to grants.
func TestReplayOwnCalls(t *testing.T) {
	t.Parallel()
	mw := configure(t, load(t, "own.wasm", policy.Limits{}), `{"name":"echo"}`)
	for _, recorded := range []replay.Recording{
		{
			Hook: contract.HookBeforeAgent,
			Calls: []replay.HostCall{{
				Name:  "tool",
				Bytes: []replay.Blob{replay.Blob(`{"name":"echo"}`)},
				Reply: replay.Blob(`{"result":{"content":"hi"}}`),
			}},
		},
		{Hook: contract.HookBeforeModelRewriteState, Calls: []replay.HostCall{{Name: "model", Bytes: []replay.Blob{replay.Blob(`{"name":"echo"}`)}, Error: &abi.Error{Code: abi.CodeModel, Message: "no"}}}},
	} {
		s := &session{mw: mw, entry: "guard", run: "run-7", stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}
		recorded.Input = replay.Blob(`{}`)
		inv, err := s.replay(t.Context(), &recorded)
		require.NoError(t, err)
		require.Equal(t, 1, inv.Replay.Calls)

		recorded.Calls[0].Bytes = []replay.Blob{replay.Blob(`{"name":"other"}`)}
		_, err = s.replay(t.Context(), &recorded)
		require.ErrorIs(t, err, replay.ErrDiverged, "it asked something else than what was recorded")
		s.Close()
	}
}

// TestOwnCallsWhileBuilding checks that the host calls "model" and "tool" are unavailable while an
// image is built.
func TestOwnCallsWhileBuilding(t *testing.T) {
	t.Parallel()
	var failed *abi.Error
	for _, name := range []string{"model", "tool"} {
		require.ErrorAs(t, new(invoke.Invocation).CheckAvailable(name), &failed)
		require.Equal(t, abi.CodeUnavailable, failed.Code)
	}
}
