package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// The writer takes urgent writes before those that were asked for earlier.
func TestUrgentWritesGoFirst(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, filepath.Join(t.TempDir(), "s.db"), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	d := s.(*store).database.(*sqliteDB)
	begun, held := make(chan struct{}), make(chan struct{})
	done := make(chan error, 3)
	go func() {
		done <- d.update(ctx, true, func(tx) error { close(begun); <-held; return nil })
	}()
	<-begun
	order := make(chan string, 2)
	ask := func(ctx context.Context, name string, queue chan *write) {
		go func() { done <- d.update(ctx, true, func(tx) error { order <- name; return nil }) }()
		require.Eventually(t, func() bool { return len(queue) == 1 }, 20*time.Second, time.Millisecond)
	}
	ask(ctx, "data", d.queue)
	ask(urgent(ctx), "control", d.first)
	close(held)
	for range 3 {
		require.NoError(t, <-done)
	}
	require.Equal(t, "control", <-order)
	require.Equal(t, "data", <-order)
}

// A large commit gives up when it is told to, and leaves nothing; an urgent one waits for no
// other large bytes.
func TestLargeCommitAborts(t *testing.T) {
	ctx := t.Context()
	opened, err := Open(ctx, filepath.Join(t.TempDir(), "s.db"), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	s := opened.(*store)
	require.NoError(t, s.Create(ctx, &journal.Creation{ID: "r", Agent: "a", Log: []byte("x\n")}))
	s.piece <- struct{}{} // somebody writes large bytes
	abort := make(chan struct{})
	c := &journal.Commit{Run: "r", Epoch: 1, Entry: 2, Log: make([]byte, 4*pieceBytes), First: 1, Last: 0, Abort: abort}
	failed := make(chan error, 1)
	go func() { failed <- s.Commit(ctx, c) }()
	close(abort)
	require.ErrorIs(t, <-failed, journal.ErrAborted)
	c.Abort, c.Urgent = nil, true
	require.NoError(t, s.Commit(ctx, c))
	kept, err := s.Load(ctx, "r")
	require.NoError(t, err)
	require.Len(t, kept.Log, 2)
}
