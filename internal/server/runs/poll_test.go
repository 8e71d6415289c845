package runs

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestFollowersShareAPoll checks that the number of queries for a run does not depend on the number
// of its followers, that queries become rare while nothing happens, and that they notice an event.
func TestFollowersShareAPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, queries, next := time.Now(), 0, 50*time.Second
		query := func() (*journal.RunInfo, error) {
			queries++
			info := &journal.RunInfo{}
			info.Status = journal.StatusRunning
			if time.Since(began) >= next {
				info.LastSeq = 1
			}
			return info, nil
		}
		all := newPolls(hints.None{}, slog.New(slog.DiscardHandler))
		var followers sync.WaitGroup
		for range 1000 {
			followers.Go(func() {
				p, leave := all.join("run")
				defer leave()
				for {
					info, wait, err := p.state(query)
					if err != nil || info.LastSeq == 1 {
						return
					}
					time.Sleep(wait)
				}
			})
		}
		followers.Wait()
		require.LessOrEqual(t, time.Since(began), next+maxPollInterval)
		require.LessOrEqual(t, queries, int(next/maxPollInterval)+4)
		require.Empty(t, all.runs)
	})
}

// TestFollowerKeepsItsPoll checks that a follower uses one poll from its first query to its end, so that
// the queries of a single follower become rare too.
func TestFollowerKeepsItsPoll(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), nil)
	require.NoError(t, err)
	defer s.Close()
	_, err = s.CreateTenant(t.Context(), "acme", "", store.TenantQuota{}, nil)
	require.NoError(t, err)
	require.NoError(t, s.Create(t.Context(), &journal.Creation{
		ID: "run_1", Tenant: "acme", Owner: "another server", LeaseTTL: time.Hour, Log: []byte("x"),
	}))
	service := &Service{
		options: &Options{},
		Active:  newActiveRuns(nil),
		polls:   newPolls(hints.None{}, slog.New(slog.DiscardHandler)),
	}
	response := admission.New(1, time.Now, nil).Responses.Open("acme")
	defer response.Close()
	f := &Follower{runs: service, tenant: s.Tenant("acme"), run: "run_1", response: response}
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		_, changed, over, err := f.poll(ctx)
		require.NoError(t, err)
		require.False(t, over)
		<-changed
	}
	require.Equal(t, 2*minPollInterval, service.polls.runs["run_1"].interval)
	cancel()
	for range f.All(ctx) {
	}
	require.Empty(t, service.polls.runs)
}

// TestPollSharesOnlyRunsInProgress checks that followers of a run that was paused do not see it
// paused once it is resumed, and that a failed query affects only one follower.
func TestPollSharesOnlyRunsInProgress(t *testing.T) {
	t.Parallel()
	p, leave := newPolls(hints.None{}, slog.New(slog.DiscardHandler)).join("run")
	defer leave()
	for _, status := range []journal.Status{journal.StatusPaused, journal.StatusRunning} {
		info, _, err := p.state(func() (*journal.RunInfo, error) {
			info := &journal.RunInfo{}
			info.Status = status
			return info, nil
		})
		require.NoError(t, err)
		require.Equal(t, status, info.Status)
	}
	p, leave = newPolls(hints.None{}, slog.New(slog.DiscardHandler)).join("run")
	defer leave()
	failed := errors.New("failed")
	_, _, err := p.state(func() (*journal.RunInfo, error) { return nil, failed })
	require.ErrorIs(t, err, failed)
	_, _, err = p.state(func() (*journal.RunInfo, error) { return &journal.RunInfo{}, nil })
	require.NoError(t, err)
}
