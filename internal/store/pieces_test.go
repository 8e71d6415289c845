package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// A weighed database knows how many bytes are being written: what is asked for at once
// shares a transaction.
type weighed struct {
	database
	mu        sync.Mutex
	now, most int
}

type weighedTx struct {
	tx
	add func(int)
}

func (t weighedTx) exec(sql string, args ...any) (int64, error) {
	t.weigh(args)
	return t.tx.exec(sql, args...)
}

func (t weighedTx) query(scan func(scan func(...any) error) error, sql string, args ...any) error {
	t.weigh(args)
	return t.tx.query(scan, sql, args...)
}

func (t weighedTx) weigh(args []any) {
	for _, a := range args {
		if b, ok := a.([]byte); ok {
			t.add(len(b))
		}
	}
}

func (d *weighed) weigh(fn func(tx) error) (weighing func(tx) error, end func()) {
	own := 0
	return func(t tx) error {
			return fn(weighedTx{t, func(n int) {
				d.mu.Lock()
				defer d.mu.Unlock()
				own += n
				d.now += n
				d.most = max(d.most, d.now)
			}})
		}, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.now -= own
		}
}

func (d *weighed) update(ctx context.Context, lazy bool, fn func(tx) error) error {
	fn, end := d.weigh(fn)
	defer end()
	return d.database.update(ctx, lazy, fn)
}

func (d *weighed) commit(ctx context.Context, written func(), fn func(tx) error) error {
	fn, end := d.weigh(fn)
	defer end()
	return d.database.commit(ctx, written, fn)
}

// However many write large bytes at once, no transaction has more of them than a piece:
// nobody else waits for more.
func TestLargeBytesAreWrittenByPieces(t *testing.T) {
	t.Parallel()
	s := withRuns(t, 0, "")
	d := &weighed{database: s.database}
	s.database = d
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			id, large := fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 400_000)
			require.NoError(t, s.Create(t.Context(), &journal.Creation{ID: id, Lease: time.Minute, Log: large}))
			require.NoError(t, s.Commit(t.Context(), &journal.Commit{Run: id, Epoch: 1, Entry: 2, Log: large, First: 1, Last: 1, Events: large, Lease: time.Minute}))
			_, err := s.PutModule(t.Context(), large)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	require.Equal(t, pieceBytes, d.most)
}

// What is swept because its writer was slow is not referred to, nor written on.
func TestSweptWhileItIsWritten(t *testing.T) {
	t.Parallel()
	s, ctx := withRuns(t, 0, ""), t.Context()
	sweep := func() {
		require.NoError(t, s.update(ctx, true, func(t tx) error {
			_, err := t.exec(`UPDATE staged SET written_ms = 1`)
			return err
		}))
		require.NoError(t, s.sweep(ctx))
	}
	requireGone := func(err error) {
		var gone *Error
		require.ErrorAs(t, err, &gone)
		require.Equal(t, Gone, gone.Kind)
		requireNoPieces(t, s)
	}
	requireGone(s.staged(ctx, nil, nil, func(bodies []*body) error {
		sweep()
		return s.update(ctx, false, func(t tx) error { return insertLog(t, "r", 1, bodies[0]) })
	}, make([]byte, 200_000)))

	requireGone(s.update(ctx, false, func(t tx) error { return stagePiece(t, "x-3", 1, []byte("abc")) }))
}

func requireNoPieces(t *testing.T, s *store) {
	t.Helper()
	require.NoError(t, s.view(context.Background(), func(tx tx) error {
		for _, table := range []string{"pieces", "staged", "run_log"} {
			var left int64
			_, err := one(tx, "SELECT count(*) FROM "+table, nil, &left)
			require.NoError(t, err)
			require.Zero(t, left, table)
		}
		return nil
	}))
}

// A noting database has the statements of its updates.
type noting struct {
	database
	statements []string
}

type notingTx struct {
	tx
	of *noting
}

func (t notingTx) query(scan func(scan func(...any) error) error, sql string, args ...any) error {
	t.of.statements = append(t.of.statements, sql)
	return t.tx.query(scan, sql, args...)
}

func (d *noting) update(ctx context.Context, lazy bool, fn func(tx) error) error {
	return d.database.update(ctx, lazy, func(t tx) error { return fn(notingTx{t, d}) })
}

// Who claims a run with a long log holds up nobody who writes while it is read.
func TestClaimReadsBesideTheWriter(t *testing.T) {
	t.Parallel()
	s := withRuns(t, 1, "")
	d := &noting{database: s.database}
	s.database = d
	kept, err := s.Claim(t.Context(), &journal.Claim{Run: "run-00000", Epoch: 1, Lease: time.Hour})
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("{}")}, kept.Log)
	require.NotEmpty(t, d.statements)
	for _, statement := range d.statements {
		require.NotContains(t, statement, "run_log")
		require.NotContains(t, statement, "pieces")
	}
}

// A halting database stops before its second update.
type halting struct {
	database
	updates     int
	halts, goOn chan struct{}
}

func (d *halting) update(ctx context.Context, lazy bool, fn func(tx) error) error {
	if d.updates++; d.updates == 2 {
		close(d.halts)
		<-d.goOn
	}
	return d.database.update(ctx, lazy, fn)
}

// While a commit's bytes are being written nobody else takes the run over for want of a
// sign of life.
func TestLargeCommitIsASignOfLife(t *testing.T) {
	t.Parallel()
	s, ctx := withRuns(t, 1, ""), t.Context() // whose lease is over
	const id = "run-00000"
	d := &halting{database: s.database, halts: make(chan struct{}), goOn: make(chan struct{})}
	slow := &store{database: d, piece: make(chan struct{}, 1)}
	done := make(chan error, 1)
	go func() {
		done <- slow.Commit(ctx, &journal.Commit{Run: id, Epoch: 1, Entry: 2, Log: make([]byte, 200_000), First: 1, Lease: time.Hour})
	}()
	<-d.halts
	_, err := s.Claim(ctx, &journal.Claim{Run: id, Epoch: 1, Owner: "you", Lease: time.Hour})
	require.ErrorIs(t, err, journal.ErrBusy)
	close(d.goOn)
	require.NoError(t, <-done)
}

// Frames of SQLite's log: https://www.sqlite.org/fileformat2.html#walformat
const (
	walHeader   = 32
	frameHeader = 24
	framePage   = 4096
)

// transactions returns where in a log of SQLite's the last frame of each transaction ends.
func transactions(t *testing.T, log []byte) (ends []int) {
	t.Helper()
	require.EqualValues(t, framePage, binary.BigEndian.Uint32(log[8:]))
	salt := log[16:24]
	for at := walHeader; at+frameHeader+framePage <= len(log) && bytes.Equal(salt, log[at+8:at+16]); at += frameHeader + framePage {
		if binary.BigEndian.Uint32(log[at+4:]) > 0 {
			ends = append(ends, at+frameHeader+framePage)
		}
	}
	return ends
}

// When power fails, between pieces or within the transaction that takes them, what is
// there is whole; and what is there of other pieces is swept.
func TestPowerFailsBetweenPieces(t *testing.T) {
	t.Parallel()
	s, ctx := withRuns(t, 0, ""), t.Context()
	large := func(of byte) []byte { return bytes.Repeat([]byte{of}, 200_000) }
	log := [][]byte{large('a'), large('b'), large('c')}
	events := []byte(fmt.Sprintf("{\"type\":\"log\",\"seq\":1,\"text\":%q}\n", large('d')))
	require.NoError(t, s.Create(ctx, &journal.Creation{ID: "r", Lease: -time.Second, Log: log[0]}))
	require.NoError(t, s.Commit(ctx, &journal.Commit{Run: "r", Epoch: 1, Entry: 2, Log: log[1], First: 1, Last: 1, Events: events, Lease: -time.Second}))
	require.NoError(t, s.Commit(ctx, &journal.Commit{Run: "r", Epoch: 1, Entry: 3, Log: log[2], First: 2, Last: 1, Lease: -time.Second, Lazy: true}))
	digest, err := s.PutModule(ctx, large('e'))
	require.NoError(t, err)
	require.NoError(t, s.Delete(ctx, "r"))

	where := s.database.(*sqliteDB).where
	kept, err := os.ReadFile(where)
	require.NoError(t, err)
	wal, err := os.ReadFile(where + "-wal")
	require.NoError(t, err)
	ends := transactions(t, wal)
	require.Greater(t, len(ends), 5*5)
	seen := map[int64]bool{}
	for _, end := range ends[3:] { // behind the tables
		for _, cut := range []int{end, end - 1} {
			path := filepath.Join(t.TempDir(), "s.db")
			require.NoError(t, os.WriteFile(path, kept, 0o600))
			require.NoError(t, os.WriteFile(path+"-wal", wal[:cut], 0o600))
			seen[requireWhole(t, path, log, digest)] = true
		}
	}
	require.Equal(t, map[int64]bool{0: true, 1: true, 2: true, 3: true}, seen, "entries of the log that were there")
}

// requireWhole fails unless what a database has is whole. It returns how many entries
// there are of the run's log.
func requireWhole(t *testing.T, where string, log [][]byte, digest string) (entries int64) {
	t.Helper()
	made, err := Open(t.Context(), where, nil)
	require.NoError(t, err)
	s := made.(*store)
	defer func() { require.NoError(t, s.Close()) }()
	bodies := int64(0)
	run, err := s.Load(t.Context(), "r")
	if err == nil {
		entries = run.Entries
		require.True(t, bytes.Equal(bytes.Join(log[:entries], nil), bytes.Join(run.Log, nil)))
		events, err := s.Events(t.Context(), "r", 0, 10)
		require.NoError(t, err)
		require.Len(t, events, int(run.LastSeq))
		bodies = entries + run.LastSeq
	} else {
		require.ErrorIs(t, err, journal.ErrNoRun)
	}
	if _, err = s.Module(t.Context(), digest); err == nil {
		bodies++
	} else {
		require.ErrorIs(t, err, ErrNoModule)
	}
	require.NoError(t, s.update(t.Context(), true, func(t tx) error {
		_, err := t.exec(`UPDATE staged SET written_ms = 1`)
		return err
	}))
	require.NoError(t, s.sweep(t.Context()))
	require.NoError(t, s.view(t.Context(), func(tx tx) error {
		var left int64
		_, err := one(tx, "SELECT count(DISTINCT id) FROM pieces", nil, &left)
		require.Equal(t, bodies, left, "what is swept, and no more")
		return err
	}))
	return entries
}
