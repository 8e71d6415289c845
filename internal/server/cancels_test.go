package server_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestCancelsOfOtherServers checks that a run ends before the next renewal of its lease if another
// server received its cancellation.
func TestCancelsOfOtherServers(t *testing.T) {
	t.Parallel()
	f := servertest.New(t, servertest.WithOwner("here"))
	ended := map[string]chan error{}
	for _, id := range []string{"run_a", "run_b"} {
		require.NoError(
			t,
			f.Store.Create(
				t.Context(),
				&journal.Creation{ID: id, Tenant: "acme", Agent: "greeter", Owner: "here", LeaseTTL: time.Hour, Log: []byte("x")},
			),
		)
		causes := make(chan error, 1)
		ended[id] = causes
		f.Services.Runs.Active.Add(id, "acme", nil, func(cause error) {
			select {
			case causes <- cause:
			default:
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go f.Services.Runs.WatchCancels(ctx)
	require.NoError(t, f.Store.Cancel(t.Context(), "run_b"))
	select {
	case err := <-ended["run_b"]:
		require.True(t, errors.Is(err, runs.ErrCanceled))
	case <-time.After(20 * time.Second):
		t.Fatal("the run was not canceled")
	}
	require.Empty(t, ended["run_a"])
	none, err := f.Store.Canceled(t.Context(), "elsewhere")
	require.NoError(t, err)
	require.Empty(t, none)
}
