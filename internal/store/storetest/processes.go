package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// testSilentProcesses checks that the leases of a process without heartbeats expire, unless its
// heartbeats arrive as hints. A process that is alive must keep its runs until another process claims
// them.
func testSilentProcesses(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	for _, owner := range []string{"silent", "heard", "alive"} {
		require.NoError(t, s.Create(ctx, &journal.Creation{ID: owner, Owner: owner, LeaseTTL: lease, Log: []byte("{}")}))
	}
	start := func(owners ...string) {
		for _, owner := range owners {
			require.NoError(t, s.StartProcess(ctx, &store.Process{Owner: owner}))
		}
	}
	claim := func(run string) error {
		_, err := s.Claim(ctx, &journal.Claim{Run: run, Epoch: 1, Owner: "new", LeaseTTL: lease})
		return err
	}
	start("silent", "heard", "idle")
	owners, err := s.EndSilent(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, owners)

	time.Sleep(store.HeartbeatTimeout + 100*time.Millisecond)
	start("alive")
	owners, err = s.EndSilent(ctx, []string{"heard", "other"})
	require.NoError(t, err)
	require.Equal(t, []string{"silent"}, owners)
	owners, err = s.EndSilent(ctx, []string{"heard"})
	require.NoError(t, err)
	require.Empty(t, owners, "a second time")
	require.ErrorIs(t, claim("heard"), journal.ErrBusy)
	require.ErrorIs(t, claim("alive"), journal.ErrBusy)

	_, err = s.Renew(ctx, "silent", 1, lease) // the process is alive, and renews its lease
	require.NoError(t, err)
	require.ErrorIs(t, claim("silent"), journal.ErrBusy)
	owners, err = s.EndSilent(ctx, []string{"heard"})
	require.NoError(t, err)
	require.Equal(t, []string{"silent"}, owners)
	require.NoError(t, claim("silent"))
	_, err = s.Renew(ctx, "silent", 1, lease)
	require.ErrorIs(t, err, journal.ErrFenced)
}
