package durability_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
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

// Sizes in SQLite's write-ahead log: https://www.sqlite.org/fileformat2.html#walformat
const (
	walHeader   = 32
	frameHeader = 24
	framePage   = 4096
)

// commitEnds returns the offsets in a write-ahead log at which transactions end.
func commitEnds(t *testing.T, log []byte) (ends []int) {
	t.Helper()
	require.EqualValues(t, framePage, binary.BigEndian.Uint32(log[8:]))
	salt := log[16:24]
	for at := walHeader; at+frameHeader+framePage <= len(log) &&
		bytes.Equal(salt, log[at+8:at+16]); at += frameHeader + framePage {
		if binary.BigEndian.Uint32(log[at+4:]) > 0 {
			ends = append(ends, at+frameHeader+framePage)
		}
	}
	return ends
}

// TestPowerFailureBetweenPieces checks that after a power failure between two pieces, or within the
// transaction that adopts them, every stored body is complete, and other pieces are swept.
func TestPowerFailureBetweenPieces(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	path, ctx := filepath.Join(t.TempDir(), "s.db"), t.Context()
	s := open(t, path, nil)
	large := func(of byte) []byte { return bytes.Repeat([]byte{of}, 200_000) }
	log := [][]byte{large('a'), large('b'), large('c')}
	events := []byte(fmt.Sprintf("{\"type\":\"log\",\"seq\":1,\"text\":%q}\n", large('d')))
	require.NoError(t, s.Create(ctx, &journal.Creation{ID: "r", LeaseTTL: -time.Second, Log: log[0]}))
	require.NoError(
		t,
		s.Commit(
			ctx,
			&journal.Commit{
				Run:      "r",
				Epoch:    1,
				Entry:    2,
				Log:      log[1],
				First:    1,
				Last:     1,
				Events:   events,
				LeaseTTL: -time.Second,
			},
		),
	)
	require.NoError(
		t,
		s.Commit(ctx,
			&journal.Commit{Run: "r", Epoch: 1, Entry: 3, Log: log[2], First: 2, Last: 1, LeaseTTL: -time.Second, Lazy: true}),
	)
	digest, err := s.PutModule(ctx, large('e'))
	require.NoError(t, err)
	require.NoError(t, s.Delete(ctx, "r"))

	file, err := os.ReadFile(path)
	require.NoError(t, err)
	wal, err := os.ReadFile(path + "-wal")
	require.NoError(t, err)
	ends := commitEnds(t, wal)
	require.Greater(t, len(ends), 5*5)
	seen := map[int64]bool{}
	for _, end := range ends[1:] { // after the transaction that creates the tables
		for _, cut := range []int{end, end - 1} {
			copied := filepath.Join(t.TempDir(), "s.db")
			require.NoError(t, os.WriteFile(copied, file, 0o600))
			require.NoError(t, os.WriteFile(copied+"-wal", wal[:cut], 0o600))
			seen[requireWhole(t, copied, log, digest)] = true
		}
	}
	require.Equal(t, map[int64]bool{0: true, 1: true, 2: true, 3: true}, seen, "numbers of entries in the log")
}

// requireWhole fails unless all bodies in a database are complete. It returns the number of
// entries in the run's log.
func requireWhole(t *testing.T, path string, log [][]byte, digest string) (entries int64) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	s, err := store.New(t.Context(), db, nil)
	require.NoError(t, err)
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
		require.ErrorIs(t, err, store.ErrNoModule)
	}
	require.NoError(t, db.Update(t.Context(), database.TxOptions{Lazy: true}, func(t database.Tx) error {
		_, err := t.Exec(`UPDATE staged SET written_ms = 1`)
		return err
	}))
	require.NoError(t, blob.NewWriter(db).Sweep(t.Context()))
	require.NoError(t, db.View(t.Context(), func(tx database.Tx) error {
		var left int64
		_, err := database.One(tx, "SELECT count(DISTINCT id) FROM pieces", nil, &left)
		require.Equal(t, bodies, left, "bodies in pieces after sweeping")
		return err
	}))
	return entries
}
