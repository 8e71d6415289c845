package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

const piece = blob.PieceBytes

// large returns text of size bytes: repetitions of the string of, each with the next number, so
// that all pieces differ.
func large(size int, of string) []byte {
	var out bytes.Buffer
	for n := 0; out.Len() < size; n++ {
		fmt.Fprintf(&out, "%s %d, ", of, n)
	}
	return out.Bytes()[:size]
}

// largeEvent returns an event whose text has size bytes.
func largeEvent(t *testing.T, seq int64, size int) []byte {
	t.Helper()
	b, err := abijson.Marshal(
		&abi.Event{Type: abi.EventLog, Seq: seq, Run: "r", Text: string(large(size, fmt.Sprint("event ", seq)))},
	)
	require.NoError(t, err)
	return append(b, '\n')
}

// raw opens a store's database directly.
func raw(t *testing.T, where string) *sql.DB {
	t.Helper()
	driver := "pgx"
	if !strings.HasPrefix(where, "postgres") {
		driver, where = "sqlite", "file:"+(&url.URL{Path: where}).EscapedPath()+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, where)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// split moves the large bytes of a PostgreSQL database from their rows to pieces, where earlier versions
// stored them. The store itself does so in SQLite.
func split(t *testing.T, db *sql.DB, where string) {
	t.Helper()
	if !strings.HasPrefix(where, "postgres") {
		return
	}
	for _, table := range []string{"run_log", "run_events", "modules"} {
		column := "body"
		if table == "modules" {
			column = "wasm"
		}
		for {
			var row string
			var body []byte
			err := db.QueryRowContext(t.Context(), fmt.Sprintf(
				`SELECT ctid::text, %s FROM %s WHERE pieces = '' AND length(%s) > $1 LIMIT 1`, column, table, column), 2*piece).
				Scan(&row, &body)
			if errors.Is(err, sql.ErrNoRows) {
				break
			}
			require.NoError(t, err)
			id := fmt.Sprintf("%s-%d", rand.Text(), len(body))
			for n := 0; n*piece < len(body); n++ {
				_, err := db.ExecContext(t.Context(), `INSERT INTO pieces (id, piece, body) VALUES ($1, $2, $3)`,
					id, n, body[n*piece:min((n+1)*piece, len(body))])
				require.NoError(t, err)
			}
			_, err = db.ExecContext(t.Context(), fmt.Sprintf(
				`UPDATE %s SET %s = '', pieces = $1 WHERE ctid = $2::tid`, table, column), id, row)
			require.NoError(t, err)
		}
	}
}

// requirePieces checks that the given number of bodies have pieces, and that rows refer to all of
// them.
func requirePieces(t *testing.T, db *sql.DB, bodies int) {
	t.Helper()
	for query, want := range map[string]int{
		"SELECT count(DISTINCT id) FROM pieces": bodies,
		"SELECT count(*) FROM staged":           0,
		`SELECT count(*) FROM (SELECT pieces FROM run_log UNION ALL SELECT pieces FROM run_events UNION ALL SELECT pieces FROM modules) AS rows
			WHERE pieces IN (SELECT id FROM pieces)`: bodies,
	} {
		var n int
		require.NoError(t, db.QueryRowContext(context.Background(), query).Scan(&n))
		require.Equal(t, want, n, query)
	}
}

// testLarge checks that all ways to read large bytes return the written bytes.
func testLarge(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	var log [][]byte
	for i, size := range []int{1<<20 + 7, 2 * piece, 2*piece + 1, 4 * piece, 10, 3*piece - 1} {
		log = append(log, large(size, fmt.Sprint("entry ", i)))
	}
	require.NoError(t, s.Create(ctx, &journal.Creation{ID: "r", Owner: "me", LeaseTTL: lease, Log: log[0]}))
	var events []byte
	for i, entry := range log[1:] {
		seq := int64(i) + 1
		e := largeEvent(t, seq, i*100_000)
		events = append(events, e...)
		require.NoError(
			t,
			s.Commit(ctx, &journal.Commit{
				Run:      "r",
				Epoch:    1,
				Entry:    seq + 1,
				Log:      entry,
				First:    seq,
				Last:     seq,
				Events:   e,
				LeaseTTL: lease,
				Lazy:     i%2 == 1,
			}),
		)
	}
	wasm := large(700_000, "module")
	digest, err := s.PutModule(ctx, wasm)
	require.NoError(t, err)
	db := raw(t, where)
	split(t, db, where)
	requirePieces(t, db, 4+3+1)
	require.NoError(t, s.Close())

	s = again(t, where)
	stored, err := s.Load(ctx, "r")
	require.NoError(t, err)
	require.True(t, equal(log, stored.Log))
	stored, err = s.Claim(ctx, &journal.Claim{Run: "r", Epoch: 1, Owner: "you", LeaseTTL: lease, Steal: true})
	require.NoError(t, err)
	require.True(t, equal(log, stored.Log))
	got, err := s.Events(ctx, "r", 0, 100)
	require.NoError(t, err)
	var lines []byte
	for i := range got {
		b, err := abijson.Marshal(&got[i])
		require.NoError(t, err)
		lines = append(append(lines, b...), '\n')
	}
	require.True(t, bytes.Equal(events, lines))
	got, err = s.Events(ctx, "r", 2, 2)
	require.NoError(t, err)
	require.Len(t, got, 2)
	module, err := s.Module(ctx, digest)
	require.NoError(t, err)
	require.True(t, bytes.Equal(wasm, module))
}

func equal(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, []byte("|")), bytes.Join(b, []byte("|")))
}

// testConcurrentLarge checks that exactly one of several concurrent creations of a run succeeds,
// that all concurrent writes of the same module succeed, and that only the pieces of that run and
// of one copy of the module remain.
func testConcurrentLarge(t *testing.T, open Opener) {
	s, where := open(t, nil)
	other := again(t, where)
	ctx := t.Context()
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		s := []store.Store{s, other}[i%2]
		wg.Go(func() {
			err := s.Create(ctx, &journal.Creation{ID: "r", Owner: "me", LeaseTTL: lease, Log: large(300_000, fmt.Sprint(i))})
			if err == nil {
				won.Add(int64(i) + 1)
				return
			}
			require.ErrorIs(t, err, journal.ErrExists)
		})
		wg.Go(func() {
			_, err := s.PutModule(ctx, large(300_000, "module"))
			require.NoError(t, err)
		})
	}
	wg.Wait()
	stored, err := s.Load(ctx, "r")
	require.NoError(t, err)
	require.True(t, equal([][]byte{large(300_000, fmt.Sprint(won.Load()-1))}, stored.Log))
	db := raw(t, where)
	split(t, db, where)
	requirePieces(t, db, 2)
}

// testLargeRejected checks that rejected writes leave no pieces.
func testLargeRejected(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{ConcurrentRuns: 1})
	bytes := large(300_000, "x")
	create := func(j journal.Journal, id string) error {
		return j.Create(ctx, &journal.Creation{ID: id, Agent: "a", Owner: "me", LeaseTTL: lease, Log: bytes})
	}
	require.NoError(t, create(acme.Journal(), "r"))
	require.ErrorIs(t, create(s, "r"), journal.ErrExists)
	var full *store.QuotaError
	require.ErrorAs(t, create(acme.Journal(), "another"), &full)
	c := &journal.Commit{
		Run:      "r",
		Epoch:    1,
		Entry:    2,
		Log:      bytes,
		First:    1,
		Last:     1,
		Events:   largeEvent(t, 1, 300_000),
		LeaseTTL: lease,
	}
	require.NoError(t, s.Commit(ctx, c))
	require.NoError(t, s.Commit(ctx, c), "the response was lost, and the commit is repeated")
	wrong := *c
	wrong.Entry = 4
	require.Error(t, s.Commit(ctx, &wrong), "an entry is missing")
	wrong.Epoch = 0
	require.ErrorIs(t, s.Commit(ctx, &wrong), journal.ErrFenced)
	wrong.Run = "none"
	require.ErrorIs(t, s.Commit(ctx, &wrong), journal.ErrNoRun)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Create(gone, &journal.Creation{ID: "gone", Log: bytes}), context.Canceled)
	db := raw(t, where)
	split(t, db, where)
	requirePieces(t, db, 3)
}

// testLargeDeleted checks that deleting rows deletes their pieces.
func testLargeDeleted(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	newTenant(t, s, "acme", store.TenantQuota{})
	db := raw(t, where)
	create := func(id, tenant string) {
		require.NoError(t,
			s.Create(ctx, &journal.Creation{ID: id, Tenant: tenant, LeaseTTL: -time.Second, Log: large(2_000_000, id)}))
		require.NoError(
			t,
			s.Commit(ctx, &journal.Commit{
				Run:      id,
				Epoch:    1,
				Entry:    1,
				First:    1,
				Last:     1,
				Events:   largeEvent(t, 1, 200_000),
				LeaseTTL: -time.Second,
			}),
		)
		split(t, db, where)
	}
	digest, err := s.PutModule(ctx, large(300_000, "module"))
	require.NoError(t, err)
	split(t, db, where)
	create("stays", "")
	create("r", "")
	requirePieces(t, db, 5)
	require.NoError(t, s.Delete(ctx, "r"))
	requirePieces(t, db, 3)
	create("theirs", "acme")
	require.NoError(t, s.DeleteTenant(ctx, "acme"))
	requirePieces(t, db, 3)
	_, err = s.Module(ctx, digest)
	require.NoError(t, err)
	n, err := s.DeleteUnusedModules(ctx, -time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	requirePieces(t, db, 2)
	stored, err := s.Load(ctx, "stays")
	require.NoError(t, err)
	require.True(t, equal([][]byte{large(2_000_000, "stays")}, stored.Log))
	pruned, err := s.Prune(ctx, store.PruneOptions{Unfinished: true})
	require.NoError(t, err)
	require.Equal(t, 1, pruned)
	requirePieces(t, db, 0)
}

// testLargeSwept checks that orphaned pieces are deleted, and recently staged ones are not.
func testLargeSwept(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	db := raw(t, where)
	now, err := s.Now(ctx)
	require.NoError(t, err)
	for name, sweep := range map[string]func() error{
		"modules": func() error { _, err := s.DeleteUnusedModules(ctx, time.Hour); return err },
		"prune":   func() error { _, err := s.Prune(ctx, store.PruneOptions{}); return err },
	} {
		stage := func(id string, at time.Time) {
			_, err := db.ExecContext(ctx,
				fmt.Sprintf(`INSERT INTO staged (id, written_ms) VALUES ('%s', %d)`, id, at.UnixMilli()))
			require.NoError(t, err)
			for n := range 20 {
				_, err := db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO pieces (id, piece, body) VALUES ('%s', %d, 'abc')`, id, n))
				require.NoError(t, err)
			}
		}
		stage(name+" old-60", now.Add(-2*time.Hour))
		stage(name+" deleted-60", time.UnixMilli(0))
		stage(name+" fresh-60", now.Add(-10*time.Minute))
		require.NoError(t, sweep(), name)
		for query, want := range map[string]int{"SELECT count(*) FROM staged": 1, "SELECT count(*) FROM pieces": 20} {
			var n int
			require.NoError(t, db.QueryRowContext(ctx, query+fmt.Sprintf(" WHERE id LIKE '%s%%'", name)).Scan(&n))
			require.Equal(t, want, n, "%s: %s", name, query)
		}
	}
}

// testLargeCorrupt checks that missing and damaged pieces are detected.
func testLargeCorrupt(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	db := raw(t, where)
	for name, damage := range map[string]string{
		"the first is missing":       "DELETE FROM pieces WHERE piece = 0",
		"one is missing":             "DELETE FROM pieces WHERE piece = 2",
		"the last is missing":        "DELETE FROM pieces WHERE piece = 4",
		"all are missing":            "DELETE FROM pieces",
		"an additional one":          "INSERT INTO pieces (id, piece, body) SELECT id, 5, body FROM pieces WHERE piece = 0",
		"one is cut":                 "UPDATE pieces SET body = substr(body, 2) WHERE piece = 1",
		"an invalid id":              "UPDATE run_log SET pieces = 'x'",
		"an id with a smaller size":  "UPDATE run_log SET pieces = replace(pieces, '-300000', '-1')",
		"an id with a negative size": "UPDATE run_log SET pieces = replace(pieces, '-300000', '--1')",
	} {
		id := strings.ReplaceAll(name, " ", "-")
		require.NoError(t, s.Create(ctx, &journal.Creation{ID: id, LeaseTTL: -time.Second, Log: large(300_000, "x")}))
		split(t, db, where)
		_, err := db.ExecContext(ctx, damage)
		require.NoError(t, err)
		var failed *database.Error
		_, err = s.Load(ctx, id)
		require.ErrorAs(t, err, &failed, name)
		require.Equal(t, database.Corrupt, failed.Kind, name)
		require.NoError(t, s.Delete(ctx, id), name)
		_, err = db.ExecContext(ctx, "DELETE FROM pieces")
		require.NoError(t, err)
	}
}

// testEventPages checks that pages of events keep their limits of events and bytes, and have each
// event once, even if many events are in one row.
func testEventPages(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	_, err := s.CreateTenant(ctx, "acme", "", store.TenantQuota{}, nil)
	require.NoError(t, err)
	require.NoError(t,
		s.Create(ctx, &journal.Creation{ID: "r", Tenant: "acme", Owner: "me", LeaseTTL: lease, Log: []byte("x")}))
	const perRow, rows, size = 100, 3, 4 << 10
	for row := range int64(rows) {
		var events []byte
		for i := range int64(perRow) {
			events = append(events, largeEvent(t, row*perRow+i+1, size)...)
		}
		require.NoError(
			t,
			s.Commit(ctx, &journal.Commit{
				Run:      "r",
				Epoch:    1,
				Entry:    row + 2,
				Log:      []byte("x"),
				First:    row*perRow + 1,
				Last:     (row + 1) * perRow,
				Events:   events,
				LeaseTTL: lease,
			}),
		)
	}
	for _, c := range []struct{ limit, maxBytes int }{
		{500, 1}, {500, size / 2}, {500, 10 * size}, {500, 1 << 20}, {1, 1 << 20},
		{perRow - 1, 1 << 20}, {perRow + 1, 1 << 20},
	} {
		after := int64(0)
		for after < rows*perRow {
			page, err := s.Tenant("acme").RunEvents(ctx, "r", after, c.limit, c.maxBytes)
			require.NoError(t, err)
			require.NotEmpty(t, page)
			require.LessOrEqual(t, len(page), min(c.limit, c.maxBytes/size+1))
			for i := range page {
				after++
				require.Equal(t, after, page[i].Seq)
			}
		}
	}
}
