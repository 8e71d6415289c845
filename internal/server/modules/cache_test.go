package modules

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
)

// A module is loaded once, however many want it, and as long as somebody uses it it stays.
func TestShelf(t *testing.T) {
	t.Parallel()
	h, err := host.New(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.WithoutCancel(t.Context()))) })
	now := time.Unix(0, 0)
	var loads atomic.Int64
	content, err := os.ReadFile("../../../testdata/modules/wrap.wasm")
	require.NoError(t, err)
	s := newCache(func(ctx context.Context, digest string, limits host.Limits) (*host.Module, error) {
		loads.Add(1)
		return h.LoadBytes(ctx, digest, content, limits)
	}, func() time.Time { return now })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, release, err := s.take(t.Context(), "a", host.Limits{})
			if err == nil {
				release()
			}
		})
	}
	wg.Wait()
	_, release, err := s.take(t.Context(), "a", host.Limits{})
	require.NoError(t, err)
	require.EqualValues(t, 1, loads.Load())
	_, other, err := s.take(t.Context(), "a", host.Limits{HostCalls: 7})
	require.NoError(t, err)
	require.EqualValues(t, 2, loads.Load(), "under other limits it is another one")
	other()
	require.Equal(t, 1, s.close(0, 0), "the one that is not used")
	release()
	release()
	require.Zero(t, s.close(time.Second, 9))
	now = now.Add(time.Second)
	require.Equal(t, 1, s.close(time.Second, 9))
	require.Empty(t, s.modules)
}

// That one tenant could not load a module is no answer for another one.
func TestShelfFails(t *testing.T) {
	t.Parallel()
	var loads atomic.Int64
	first, let := make(chan struct{}), make(chan struct{})
	broken := errors.New("no room for it")
	s := newCache(func(context.Context, string, host.Limits) (*host.Module, error) {
		if loads.Add(1) == 1 {
			close(first)
			<-let
			return nil, broken
		}
		return &host.Module{}, nil
	}, time.Now)
	failed := make(chan error, 1)
	go func() {
		_, _, err := s.take(t.Context(), "a", host.Limits{})
		failed <- err
	}()
	<-first
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, _, err := s.take(gone, "a", host.Limits{})
	require.ErrorIs(t, err, context.Canceled, "who leaves does not wait")
	got := make(chan error, 1)
	go func() {
		_, _, err := s.take(t.Context(), "a", host.Limits{})
		got <- err
	}()
	close(let)
	require.ErrorIs(t, <-failed, broken)
	require.NoError(t, <-got)
	require.EqualValues(t, 2, loads.Load())
}
