package sqlite

import (
	"context"
	"database/sql"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A conn is a connection that caches its prepared statements, because parsing most statements
// takes longer than executing them. It implements [database.Tx]. Contexts do not interrupt
// statements, which are short.
type conn struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

func newConn(ctx context.Context, db *sql.DB) (*conn, error) {
	c, err := db.Conn(ctx)
	return &conn{c, map[string]*sql.Stmt{}}, err
}

func (c *conn) close() error {
	for _, s := range c.statements {
		_ = s.Close()
	}
	return c.conn.Close()
}

// prepare returns the prepared statement of some SQL. It prepares the same SQL only once.
func (c *conn) prepare(text string) (*sql.Stmt, error) {
	if s := c.statements[text]; s != nil {
		return s, nil
	}
	s, err := c.conn.PrepareContext(context.Background(), dialect(text))
	if err == nil {
		c.statements[text] = s
	}
	return s, err
}

// Exec implements [database.Tx].
func (c *conn) Exec(text string, args ...any) (int64, error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Query implements [database.Tx].
func (c *conn) Query(scan func(func(...any) error) error, text string, args ...any) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	return database.ScanRows(rows, err, scan)
}

// read runs fn on a snapshot of the database.
func (c *conn) read(ctx context.Context, fn func(database.Tx) error) error {
	if _, err := c.Exec("BEGIN"); err != nil {
		return err
	}
	defer func() { _, _ = c.Exec("ROLLBACK") }()
	return fn(snapshot{c, ctx})
}

// A snapshot is a reading transaction that stops between rows when its context is done.
type snapshot struct {
	*conn
	ctx context.Context
}

// Query implements [database.Tx].
func (s snapshot) Query(scan func(func(...any) error) error, text string, args ...any) error {
	return s.conn.Query(func(row func(...any) error) error {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		return scan(row)
	}, text, args...)
}
