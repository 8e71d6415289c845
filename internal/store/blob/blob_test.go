package blob

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/migrations"
	"github.com/agent-runner/agent-runner/internal/store/sqlite"
)

func openTest(t *testing.T) *Writer {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, migrations.Apply(t.Context(), db))
	return NewWriter(db)
}

// requireSwept checks that err is the error of a writer whose pieces were swept, and that no pieces
// are left.
func requireSwept(t *testing.T, w *Writer, err error) {
	t.Helper()
	var e *database.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, database.Unavailable, e.Kind)
	require.NoError(t, w.db.View(t.Context(), func(tx database.Tx) error {
		for _, table := range []string{"pieces", "staged", "run_log"} {
			var left int64
			_, err := database.One(tx, "SELECT count(*) FROM "+table, nil, &left)
			require.NoError(t, err)
			require.Zero(t, left, table)
		}
		return nil
	}))
}

// TestSlowWriterFails checks that a slow writer can neither adopt nor extend its pieces once they
// are swept.
func TestSlowWriterFails(t *testing.T) {
	t.Parallel()
	w, ctx := openTest(t), t.Context()
	requireSwept(t, w, w.Write(ctx, Options{}, func(bodies []*Body) error {
		require.NoError(t, w.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
			_, err := t.Exec(`UPDATE staged SET written_ms = 1`)
			return err
		}))
		require.NoError(t, w.Sweep(ctx))
		return w.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
			if err := bodies[0].Adopt(t); err != nil {
				return err
			}
			_, err := t.Exec(`INSERT INTO run_log (run, entry, body, pieces) VALUES ('r', 1, $1, $2)`,
				bodies[0].InRow, bodies[0].Pieces)
			return err
		})
	}, make([]byte, 200_000)))
	requireSwept(t, w,
		w.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error { return stagePiece(t, "x-3", 1, []byte("abc")) }))
}
