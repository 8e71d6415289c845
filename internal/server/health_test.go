package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// A countedStore counts queries for a tenant, and answers each after 100 ms.
type countedStore struct {
	store.Store
	queries atomic.Int64
	err     error
}

func (s *countedStore) TenantInfo(context.Context, string) (*store.TenantInfo, error) {
	s.queries.Add(1)
	time.Sleep(100 * time.Millisecond)
	return nil, s.err
}

// TestReadinessQueriesOncePerSecond checks that requests for /readyz, which need no key, query the
// database at most once per second.
func TestReadinessQueriesOncePerSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &countedStore{}
		h := newHealth(s, nil)
		for range 5 {
			var clients sync.WaitGroup
			for range 50 {
				clients.Go(func() { require.NoError(t, h.checkStore(t.Context())) })
				time.Sleep(20 * time.Millisecond)
			}
			clients.Wait()
		}
		require.EqualValues(t, 5, s.queries.Load())
		s.err = errors.New("the database is down")
		time.Sleep(readyTTL)
		require.ErrorIs(t, h.checkStore(t.Context()), s.err)
	})
}
