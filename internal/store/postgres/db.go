// Package postgres opens PostgreSQL databases for the store. It takes a connection string
// and returns a [database.DB]. Several machines may use the database concurrently. The package
// imports only package database of this project.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

const (
	maxConns       = 16 // per pool
	connectTimeout = 5 * time.Second
	exclusiveLock  = 0x61677272 // argument of pg_advisory_xact_lock: "agrr"
)

// A DB is a database on a PostgreSQL server. Lazy transactions use a pool of connections
// with synchronous_commit off.
type DB struct {
	address string
	durable *sql.DB
	lazy    *sql.DB
}

// Open connects to a database such as postgres://user:password@host/name.
func Open(ctx context.Context, url string) (*DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	config.ConnectTimeout = connectTimeout
	d := &DB{address: fmt.Sprintf("postgres://%s:%d/%s", config.Host, config.Port, config.Database)}
	open := func(synchronousCommit string) *sql.DB {
		c := config.Copy()
		c.RuntimeParams["synchronous_commit"] = synchronousCommit
		c.RuntimeParams["application_name"] = "agent-runner"
		db := stdlib.OpenDB(*c)
		db.SetMaxOpenConns(maxConns)
		db.SetMaxIdleConns(maxConns)
		return db
	}
	d.durable, d.lazy = open("on"), open("off")
	if err := d.durable.PingContext(ctx); err != nil {
		_ = d.Close()
		return nil, d.classify(err)
	}
	return d, nil
}

// dialect translates a statement of the store into PostgreSQL's SQL.
func dialect(text string) string {
	text = strings.ReplaceAll(text, "NOW_MS", "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)")
	text = strings.ReplaceAll(text, "WITHOUT_ROWID", "")
	return strings.ReplaceAll(text, "BYTES", "BYTEA")
}

// Close implements [database.DB].
func (d *DB) Close() error { return errors.Join(d.durable.Close(), d.lazy.Close()) }

// Update implements [database.DB]. It does not call o.Written: PostgreSQL reports a commit only
// once the commit is durable.
func (d *DB) Update(ctx context.Context, o database.TxOptions, fn func(database.Tx) error) error {
	if o.Lazy {
		return d.transact(ctx, d.lazy, nil, fn)
	}
	return d.transact(ctx, d.durable, nil, fn)
}

// SingleWriter implements [database.DB].
func (*DB) SingleWriter() bool { return false }

// View implements [database.DB].
func (d *DB) View(ctx context.Context, fn func(database.Tx) error) error {
	return d.transact(ctx, d.durable, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}, fn)
}

// Exclusive implements [database.DB].
func (d *DB) Exclusive(ctx context.Context, fn func(database.Tx) error) error {
	return d.transact(ctx, d.durable, nil, func(t database.Tx) error {
		ignore := func(func(...any) error) error { return nil }
		if err := t.Query(ignore, "SELECT pg_advisory_xact_lock($1)", int64(exclusiveLock)); err != nil {
			return err
		}
		return fn(t)
	})
}

func (d *DB) transact(ctx context.Context, db *sql.DB, o *sql.TxOptions, fn func(database.Tx) error) error {
	t, err := db.BeginTx(ctx, o)
	if err != nil {
		return d.classify(err)
	}
	if err := fn(tx{ctx, t}); err != nil {
		_ = t.Rollback()
		return d.classify(err)
	}
	return d.classify(t.Commit())
}

// A tx is a transaction with the context of its statements. It implements [database.Tx].
type tx struct {
	ctx context.Context
	tx  *sql.Tx
}

// Exec implements [database.Tx].
func (t tx) Exec(text string, args ...any) (int64, error) {
	res, err := t.tx.ExecContext(t.ctx, dialect(text), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Query implements [database.Tx].
func (t tx) Query(scan func(func(...any) error) error, text string, args ...any) error {
	rows, err := t.tx.QueryContext(t.ctx, dialect(text), args...)
	return database.ScanRows(rows, err, scan)
}
