// Package database defines the store's interface to an SQL database: transactions with a
// selected durability, and errors with advice. Packages sqlite and postgres implement [DB].
//
// Both databases execute the same statements. Their parameters are $1, $2, and so on. NOW_MS means
// the database's clock in milliseconds since 1970, and BYTES means the database's type for byte
// strings. WITHOUT_ROWID at the end of a table makes SQLite store its rows in the primary key.
//
// The package imports no other package of this project, and does not depend on the schema.
package database

import (
	"context"
	"database/sql"
	"time"
)

// A DB is an open database. It is safe for concurrent use. A failure of the database is an
// [*Error]. Errors that a transaction's function returns with [ForCaller] are returned
// unchanged.
type DB interface {
	// Update runs fn in a transaction that may write. It rolls the transaction back if fn
	// fails.
	Update(ctx context.Context, o TxOptions, fn func(Tx) error) error
	// View runs fn in a read-only transaction on one snapshot of the database.
	View(ctx context.Context, fn func(Tx) error) error
	// Exclusive runs fn in a transaction while no other process runs one with Exclusive.
	Exclusive(ctx context.Context, fn func(Tx) error) error
	// SingleWriter reports whether the database runs one transaction that writes at a time, so that
	// each one delays all others.
	SingleWriter() bool
	// Close waits for transactions in progress and closes the database.
	Close() error
}

// TxOptions configure a transaction that may write. The zero value is durable: when Update
// returns, the transaction survives a power failure.
type TxOptions struct {
	// Lazy transactions survive the end of the process. They survive a power failure only
	// after a later durable transaction.
	Lazy bool
	// Priority transactions are started before others that wait for SQLite's writer. They are
	// for control operations: a cancellation, a block, the renewal of a lease.
	Priority bool
	// Written, if not nil, may be called as soon as the transaction survives the end of the process
	// but not yet a power failure.
	Written func()
}

// A Querier reads rows.
type Querier interface {
	// Query executes a statement, and calls scan for each row with a function that reads the row's
	// columns.
	Query(scan func(scan func(...any) error) error, sql string, args ...any) error
}

// A Tx is a transaction.
type Tx interface {
	Querier
	// Exec executes a statement, and returns the number of rows that it changed.
	Exec(sql string, args ...any) (int64, error)
}

// One executes a query and reads the row of its result into out. It reports whether there is a row.
// The query must return at most one row.
func One(q Querier, sql string, args []any, out ...any) (found bool, err error) {
	err = q.Query(func(scan func(...any) error) error {
		found = true
		return scan(out...)
	}, sql, args...)
	return found, err
}

// Strings returns the results of a query whose rows have one column, a string.
func Strings(q Querier, sql string, args ...any) (out []string, err error) {
	err = q.Query(func(scan func(...any) error) error {
		var s string
		err := scan(&s)
		out = append(out, s)
		return err
	}, sql, args...)
	return out, err
}

// ScanRows calls scan for each row and closes rows. If err, the error of the query, is not nil, it
// only returns err.
func ScanRows(rows *sql.Rows, err error, scan func(func(...any) error) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Limits on each of the transactions into which [InBatches] splits work.
const (
	BatchRows = 1000
	BatchTime = 20 * time.Millisecond
)

// InBatches calls do until it reports that no more work is left. After each call it pauses for
// as long as the call took, so that others can use the database.
func InBatches(ctx context.Context, do func() (more bool, err error)) error {
	for {
		start := time.Now()
		more, err := do()
		if err != nil || !more {
			return err
		}
		select {
		case <-time.After(time.Since(start)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
