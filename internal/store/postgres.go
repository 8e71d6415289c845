package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// How PostgreSQL is used.
const (
	connections    = 16 // at most, of each kind
	connectTimeout = 5 * time.Second
	migrationLock  = 0x61677272 // of pg_advisory_xact_lock: "agrr"
)

// postgresDB is a database of a server, which many machines use at once. Lazy
// writes have connections of their own, whose commits do not wait for the disk.
type postgresDB struct {
	where   string
	durable *sql.DB
	lazy    *sql.DB
}

func openPostgres(ctx context.Context, where string) (database, error) {
	config, err := pgx.ParseConfig(where)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	config.ConnectTimeout = connectTimeout
	d := &postgresDB{where: fmt.Sprintf("postgres://%s:%d/%s", config.Host, config.Port, config.Database)}
	open := func(synchronous string) *sql.DB {
		c := config.Copy()
		c.RuntimeParams["synchronous_commit"] = synchronous
		c.RuntimeParams["application_name"] = "agent-runner"
		db := stdlib.OpenDB(*c)
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
		return db
	}
	d.durable, d.lazy = open("on"), open("off")
	if err := d.durable.PingContext(ctx); err != nil {
		_ = d.close()
		return nil, d.failed(err)
	}
	return d, nil
}

func (d *postgresDB) dialect(text string) string {
	text = strings.ReplaceAll(text, "NOW_MS", "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)")
	return strings.ReplaceAll(text, "BYTES", "BYTEA")
}

func (d *postgresDB) close() error { return errors.Join(d.durable.Close(), d.lazy.Close()) }

// update implements database.
func (d *postgresDB) update(ctx context.Context, lazy bool, fn func(tx) error) error {
	db := d.durable
	if lazy {
		db = d.lazy
	}
	return d.in(ctx, db, nil, fn)
}

// commit implements database: a commit that waits for the disk tells of nothing before.
func (d *postgresDB) commit(ctx context.Context, _ func(), fn func(tx) error) error {
	return d.update(ctx, false, fn)
}

// view implements database.
func (d *postgresDB) view(ctx context.Context, fn func(tx) error) error {
	return d.in(ctx, d.durable, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}, fn)
}

// exclusive implements database.
func (d *postgresDB) exclusive(ctx context.Context, fn func(tx) error) error {
	return d.in(ctx, d.durable, nil, func(t tx) error {
		if err := t.query(func(func(...any) error) error { return nil }, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		return fn(t)
	})
}

func (d *postgresDB) in(ctx context.Context, db *sql.DB, o *sql.TxOptions, fn func(tx) error) error {
	t, err := db.BeginTx(ctx, o)
	if err != nil {
		return d.failed(err)
	}
	if err := fn(sqlTx{ctx, t, d.dialect}); err != nil {
		_ = t.Rollback()
		return d.failed(err)
	}
	return d.failed(t.Commit())
}

// failed says what is wrong with the database, if err is an error of it.
func (d *postgresDB) failed(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := ours(err, d.where); ok {
		return known
	}
	e := &Error{Broken, d.where, err}
	var said *pgconn.PgError
	var unreached *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.As(err, &said):
		e.Kind = postgresKind(said.Code)
	case errors.As(err, &unreached), errors.As(err, &network), errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), pgconn.SafeToRetry(err),
		strings.Contains(err.Error(), "conn closed"), strings.Contains(err.Error(), "unexpected EOF"):
		e.Kind = Gone
	}
	return e
}

// postgresKind goes by the codes of PostgreSQL's manual, appendix A.
func postgresKind(code string) Kind {
	switch {
	case code == "53100": // disk_full
		return Full
	case code == "25006", code == "42501": // read_only_sql_transaction, insufficient_privilege
		return ReadOnly
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "57P"), strings.HasPrefix(code, "53"), strings.HasPrefix(code, "40"), code == "55P03":
		return Gone // connections, shutdown, too little of something, conflicts, locks
	case strings.HasPrefix(code, "XX"):
		return Corrupt
	default:
		return Broken
	}
}
