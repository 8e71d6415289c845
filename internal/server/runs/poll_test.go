package runs

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// TestFollowersShareAPoll checks that the queries for a run do not depend on the number of its
// followers, become rare while nothing happens, and notice an event.
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
		all := newPolls()
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

// TestPollSharesOnlyRunsInProgress checks that followers of a run that was paused do not see it
// paused once it is resumed, and that the failure of a query concerns one follower only.
func TestPollSharesOnlyRunsInProgress(t *testing.T) {
	t.Parallel()
	p, leave := newPolls().join("run")
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
	p, leave = newPolls().join("run")
	defer leave()
	failed := errors.New("failed")
	_, _, err := p.state(func() (*journal.RunInfo, error) { return nil, failed })
	require.ErrorIs(t, err, failed)
	_, _, err = p.state(func() (*journal.RunInfo, error) { return &journal.RunInfo{}, nil })
	require.NoError(t, err)
}
