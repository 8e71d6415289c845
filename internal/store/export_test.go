package store

import (
	"context"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/migrations"
	"github.com/agent-runner/agent-runner/internal/store/sqlite"
)

// OpenExplained opens a store on an SQLite database. It also returns a function explain, which
// returns a map from each statement that the store has executed to its query plan. A plan has one
// line for each step.
func OpenExplained(
	ctx context.Context,
	path string,
	o *Options,
) (s Store, explain func() (map[string]string, error), err error) {
	db, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	d := &explainedDB{DB: db, statements: map[string]bool{}}
	opened, err := newStore(ctx, d, o)
	if err != nil {
		return nil, nil, err
	}
	return opened, d.explain, nil
}

// Execute executes one migration again.
func Execute(ctx context.Context, s Store, migration string) error {
	return s.(*store).db.Exclusive(ctx, func(t database.Tx) error { return migrations.Execute(t, migration) })
}

// An explainedDB collects the statements of its transactions.
type explainedDB struct {
	database.DB
	mu         sync.Mutex
	statements map[string]bool
}

func (d *explainedDB) Update(ctx context.Context, o database.TxOptions, fn func(database.Tx) error) error {
	return d.DB.Update(ctx, o, func(t database.Tx) error { return fn(explainedTx{t, d}) })
}

func (d *explainedDB) View(ctx context.Context, fn func(database.Tx) error) error {
	return d.DB.View(ctx, func(t database.Tx) error { return fn(explainedTx{t, d}) })
}

func (d *explainedDB) Exclusive(ctx context.Context, fn func(database.Tx) error) error {
	return d.DB.Exclusive(ctx, func(t database.Tx) error { return fn(explainedTx{t, d}) })
}

type explainedTx struct {
	database.Tx
	db *explainedDB
}

func (t explainedTx) Exec(sql string, args ...any) (int64, error) {
	n, err := t.Tx.Exec(sql, args...)
	t.db.add(sql, err)
	return n, err
}

func (t explainedTx) Query(scan func(scan func(...any) error) error, sql string, args ...any) error {
	err := t.Tx.Query(scan, sql, args...)
	t.db.add(sql, err)
	return err
}

func (d *explainedDB) add(sql string, err error) {
	verb, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	if err == nil && (verb == "SELECT" || verb == "INSERT" || verb == "UPDATE" || verb == "DELETE") {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.statements[sql] = true
	}
}

func (d *explainedDB) explain() (map[string]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	plans := map[string]string{}
	return plans, d.DB.View(context.Background(), func(t database.Tx) error {
		for sql := range d.statements {
			var steps []string
			if err := t.Query(func(scan func(...any) error) error {
				var id, parent, unused int64
				var step string
				err := scan(&id, &parent, &unused, &step)
				steps = append(steps, step)
				return err
			}, "EXPLAIN QUERY PLAN "+sql, make([]any, 32)...); err != nil {
				return err
			}
			plans[sql] = strings.Join(steps, "\n")
		}
		return nil
	})
}
