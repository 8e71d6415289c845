package persist_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// A lossy journal fails each commit with an error. It records the lease of the last renewal.
type lossy struct {
	journal.Journal
	err   error
	lease time.Duration
}

func (l *lossy) Create(context.Context, *journal.Creation) error { return nil }

func (l *lossy) Commit(context.Context, *journal.Commit) error { return l.err }

func (l *lossy) Renew(_ context.Context, _ string, _ int64, lease time.Duration) (bool, error) {
	l.lease = lease
	return false, nil
}

// TestLostCommits checks that a run whose journal lost its last changes ends its lease, so that another
// process can resume it at once. After other failures it keeps the lease.
func TestLostCommits(t *testing.T) {
	t.Parallel()
	for err, lease := range map[error]time.Duration{
		fmt.Errorf("run r is at entry 2: %w", journal.ErrLost): 0,
		errors.New("another failure"):                          time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &lossy{err: err, lease: time.Hour}
			a, e := agent.New(&agent.Options{Journal: &journal.Options{Journal: l},
				Model: modelFunc(func() (*abi.Response, error) { return &abi.Response{Message: abi.Assistant("done")}, nil })})
			require.NoError(t, e)
			var failed error
			for _, err := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
				failed = err
			}
			require.ErrorIs(t, failed, err)
			require.Equal(t, lease, l.lease)
		})
	}
}
