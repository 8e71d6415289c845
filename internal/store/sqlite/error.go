package sqlite

import (
	"errors"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// classify returns err as a [*database.Error] if it is a failure of the database.
func (d *DB) classify(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := database.Classified(err, d.path); ok {
		return known
	}
	e := &database.Error{Kind: database.Failed, Database: d.path, Err: err}
	var reported *sqlite.Error
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Kind = database.ReadOnly
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Kind = database.Full
	case errors.As(err, &reported):
		e.Kind = kindOf(reported.Code())
	}
	return e
}

// kindOf returns the kind of one of SQLite's extended result codes:
// https://www.sqlite.org/rescode.html
func kindOf(code int) database.Kind {
	switch code {
	case sqlite3.SQLITE_IOERR_WRITE,
		sqlite3.SQLITE_IOERR_FSYNC,
		sqlite3.SQLITE_IOERR_SHMSIZE,
		sqlite3.SQLITE_IOERR_TRUNCATE:
		return database.Full // also reported when the file reaches the process's file size limit
	}
	switch code & 0xff { // the primary result code
	case sqlite3.SQLITE_FULL:
		return database.Full
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return database.ReadOnly
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return database.Unavailable
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return database.Corrupt
	default:
		return database.Failed
	}
}
