package store

import (
	"context"
	"database/sql"
)

// A sqliteConn is a connection, with the statements that it knows: to read a statement
// takes longer than what most of them do. It is a [tx] of whoever uses it. Statements are
// not ended by a context: what has begun is quick, and comes to its end.
type sqliteConn struct {
	db    *sqliteDB
	conn  *sql.Conn
	known map[string]*sql.Stmt
}

func (d *sqliteDB) newConn(ctx context.Context, of *sql.DB) (*sqliteConn, error) {
	c, err := of.Conn(ctx)
	return &sqliteConn{d, c, map[string]*sql.Stmt{}}, err
}

func (c *sqliteConn) close() error {
	for _, s := range c.known {
		_ = s.Close()
	}
	return c.conn.Close()
}

func (c *sqliteConn) statement(text string) (*sql.Stmt, error) {
	if s := c.known[text]; s != nil {
		return s, nil
	}
	s, err := c.conn.PrepareContext(context.Background(), c.db.dialect(text))
	if err == nil {
		c.known[text] = s
	}
	return s, err
}

func (c *sqliteConn) exec(text string, args ...any) (int64, error) {
	s, err := c.statement(text)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (c *sqliteConn) query(scan func(func(...any) error) error, text string, args ...any) error {
	s, err := c.statement(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	return scanAll(rows, err, scan)
}

// read runs fn, which sees one state of the database.
func (c *sqliteConn) read(ctx context.Context, fn func(tx) error) error {
	if _, err := c.exec("BEGIN"); err != nil {
		return err
	}
	defer func() { _, _ = c.exec("ROLLBACK") }()
	return fn(reading{c, ctx})
}

// reading is a connection that reads for somebody: many rows are not read to their end
// for one who has left.
type reading struct {
	*sqliteConn
	ctx context.Context
}

func (r reading) query(scan func(func(...any) error) error, text string, args ...any) error {
	return r.sqliteConn.query(func(row func(...any) error) error {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		return scan(row)
	}, text, args...)
}
