package postgres

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// classify returns err as a [*database.Error] if it is a failure of the database.
func (d *DB) classify(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := database.Classified(err, d.address); ok {
		return known
	}
	e := &database.Error{Kind: database.Failed, Database: d.address, Err: err}
	var reported *pgconn.PgError
	var refused *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.As(err, &reported):
		e.Kind = kindOf(reported.Code)
	case errors.As(err, &refused),
		errors.As(err, &network),
		errors.Is(err, driver.ErrBadConn),
		errors.Is(err, sql.ErrConnDone),
		pgconn.SafeToRetry(err),
		strings.Contains(err.Error(), "conn closed"),
		strings.Contains(err.Error(), "unexpected EOF"):
		e.Kind = database.Unavailable
	}
	return e
}

// kindOf returns the kind of one of PostgreSQL's error codes:
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func kindOf(code string) database.Kind {
	switch {
	case code == "53100": // disk_full
		return database.Full
	case code == "25006", code == "42501": // read_only_sql_transaction, insufficient_privilege
		return database.ReadOnly
	case strings.HasPrefix(code, "08"),
		strings.HasPrefix(code, "57P"),
		strings.HasPrefix(code, "53"),
		strings.HasPrefix(code, "40"),
		code == "55P03":
		return database.Unavailable // connection failures, shutdowns, exhausted resources, serialization conflicts, locks
	case strings.HasPrefix(code, "XX"):
		return database.Corrupt
	default:
		return database.Failed
	}
}
