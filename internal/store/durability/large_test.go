package durability_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/sqlite"
)

// openWrapped opens a store on an SQLite database at path, after passing the database through wrap.
// It closes the store after the test.
func openWrapped(t *testing.T, path string, wrap func(database.DB) database.DB) store.Store {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	s, err := store.New(t.Context(), wrap(db), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// createExpired stores a run whose lease has expired, with the log "{}".
func createExpired(t *testing.T, s store.Store, id string) {
	t.Helper()
	require.NoError(t, s.Create(t.Context(), &journal.Creation{ID: id, LeaseTTL: -time.Second, Log: []byte("{}")}))
}

// A measuringDB records the maximum number of bytes that the updates in progress write together,
// because concurrent updates may share a transaction.
type measuringDB struct {
	database.DB
	mu       sync.Mutex
	now, max int
}

// Update implements [database.DB].
func (d *measuringDB) Update(ctx context.Context, o database.TxOptions, fn func(database.Tx) error) error {
	own := 0
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.now -= own
	}()
	return d.DB.Update(ctx, o, func(t database.Tx) error {
		return fn(measuringTx{t, func(n int) {
			d.mu.Lock()
			defer d.mu.Unlock()
			own += n
			d.now += n
			d.max = max(d.max, d.now)
		}})
	})
}

type measuringTx struct {
	database.Tx
	add func(int)
}

// Exec implements [database.Tx].
func (t measuringTx) Exec(sql string, args ...any) (int64, error) {
	t.measure(args)
	return t.Tx.Exec(sql, args...)
}

// Query implements [database.Tx].
func (t measuringTx) Query(scan func(scan func(...any) error) error, sql string, args ...any) error {
	t.measure(args)
	return t.Tx.Query(scan, sql, args...)
}

func (t measuringTx) measure(args []any) {
	for _, a := range args {
		if b, ok := a.([]byte); ok {
			t.add(len(b))
		}
	}
}

// TestTransactionsContainOnePiece checks that no transaction contains more than one piece while eight
// writers write large bytes concurrently.
func TestTransactionsContainOnePiece(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	d := &measuringDB{}
	s := openWrapped(t, filepath.Join(t.TempDir(), "s.db"), func(db database.DB) database.DB {
		d.DB = db
		return d
	})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			id, large := fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 400_000)
			require.NoError(t, s.Create(t.Context(), &journal.Creation{ID: id, LeaseTTL: time.Minute, Log: large}))
			require.NoError(
				t,
				s.Commit(t.Context(),
					&journal.Commit{Run: id, Epoch: 1, Entry: 2, Log: large, First: 1, Last: 1, Events: large, LeaseTTL: time.Minute}),
			)
			_, err := s.PutModule(t.Context(), large)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	require.Equal(t, blob.PieceBytes, d.max)
}

// A recordingDB records the queries of its updates.
type recordingDB struct {
	database.DB
	statements []string
}

// Update implements [database.DB].
func (d *recordingDB) Update(ctx context.Context, o database.TxOptions, fn func(database.Tx) error) error {
	return d.DB.Update(ctx, o, func(t database.Tx) error { return fn(recordingTx{t, d}) })
}

type recordingTx struct {
	database.Tx
	db *recordingDB
}

// Query implements [database.Tx].
func (t recordingTx) Query(scan func(scan func(...any) error) error, sql string, args ...any) error {
	t.db.statements = append(t.db.statements, sql)
	return t.Tx.Query(scan, sql, args...)
}

// TestClaimReadsLogConcurrently checks that Claim reads the log, which may be long, outside of the
// transaction that blocks writers.
func TestClaimReadsLogConcurrently(t *testing.T) {
	t.Parallel()
	d := &recordingDB{}
	s := openWrapped(t, filepath.Join(t.TempDir(), "s.db"), func(db database.DB) database.DB {
		d.DB = db
		return d
	})
	createExpired(t, s, "r")
	d.statements = nil
	claimed, err := s.Claim(t.Context(), &journal.Claim{Run: "r", Epoch: 1, LeaseTTL: time.Hour})
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("{}")}, claimed.Log)
	require.NotEmpty(t, d.statements)
	for _, statement := range d.statements {
		require.NotContains(t, statement, "run_log")
		require.NotContains(t, statement, "pieces")
	}
}

// A pausingDB pauses before the update with the number pause, which starts with 1.
type pausingDB struct {
	database.DB
	updates, pause  int
	paused, proceed chan struct{}
}

// openPausing opens a store on the SQLite database at path, and returns the database of the store, which
// does not pause until pause is set.
func openPausing(t *testing.T, path string) (store.Store, *pausingDB) {
	t.Helper()
	d := &pausingDB{paused: make(chan struct{}), proceed: make(chan struct{})}
	return openWrapped(t, path, func(db database.DB) database.DB {
		d.DB = db
		return d
	}), d
}

// Update implements [database.DB].
func (d *pausingDB) Update(ctx context.Context, o database.TxOptions, fn func(database.Tx) error) error {
	if d.updates++; d.updates == d.pause {
		close(d.paused)
		<-d.proceed
	}
	return d.DB.Update(ctx, o, fn)
}

// TestLargeCommitRenewsLease checks that each piece of a commit renews the lease. Otherwise another
// process could take over the run during a large commit.
func TestLargeCommitRenewsLease(t *testing.T) {
	t.Parallel()
	path, ctx := filepath.Join(t.TempDir(), "s.db"), t.Context()
	s := open(t, path, nil)
	slow, d := openPausing(t, path)
	const id = "r"
	createExpired(t, s, id)
	d.pause = d.updates + 2
	done := make(chan error, 1)
	go func() {
		done <- slow.Commit(ctx, &journal.Commit{
			Run: id, Epoch: 1, Entry: 2, Log: make([]byte, 200_000), First: 1, LeaseTTL: time.Hour,
		})
	}()
	<-d.paused
	_, err := s.Claim(ctx, &journal.Claim{Run: id, Epoch: 1, Owner: "you", LeaseTTL: time.Hour})
	require.ErrorIs(t, err, journal.ErrBusy)
	close(d.proceed)
	require.NoError(t, <-done)
}

// TestLargeCommitAborts checks that a large commit has no effect if it is aborted while it waits,
// and that an urgent one does not wait.
func TestLargeCommitAborts(t *testing.T) {
	t.Parallel()
	s, d := openPausing(t, filepath.Join(t.TempDir(), "s.db"))
	ctx := t.Context()
	const id = "r"
	createExpired(t, s, id)
	d.pause = d.updates + 1
	written := make(chan error, 1)
	go func() {
		_, err := s.PutModule(ctx, make([]byte, 4*blob.PieceBytes))
		written <- err
	}()
	<-d.paused // in the middle of a piece
	abort := make(chan struct{})
	c := &journal.Commit{
		Run:   id,
		Epoch: 1,
		Entry: 2,
		Log:   make([]byte, 4*blob.PieceBytes),
		First: 1,
		Last:  0,
		Abort: abort,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Commit(ctx, c) }()
	close(abort)
	require.ErrorIs(t, <-failed, journal.ErrAborted)
	c.Abort, c.Urgent = nil, true
	require.NoError(t, s.Commit(ctx, c))
	stored, err := s.Load(ctx, id)
	require.NoError(t, err)
	require.Len(t, stored.Log, 2)
	close(d.proceed)
	require.NoError(t, <-written)
}
