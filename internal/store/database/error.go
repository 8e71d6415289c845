package database

import (
	"context"
	"errors"
	"fmt"
)

// A Kind classifies failures of a database.
type Kind string

// The kinds of failures.
const (
	Full        Kind = "full"        // the disk or the file's size limit is exhausted
	ReadOnly    Kind = "read_only"   // the database cannot be written to
	Unavailable Kind = "unavailable" // the database is unreachable or busy; a retry may succeed
	Corrupt     Kind = "corrupt"     // the stored data is damaged
	Newer       Kind = "newer"       // a newer version of this program created the database
	Failed      Kind = "failed"      // any other failure
)

// An Error is a failure of a database. The transaction has no effect, with one exception: after a
// failed fsync, any of the last transactions may be lost. The database then rejects all further
// transactions that write.
type Error struct {
	Kind     Kind
	Database string // the database's path, or its address without credentials
	Err      error
}

var advice = map[Kind]string{
	Full:        "no space left for the database; free some, and resume the run",
	ReadOnly:    "the database cannot be written to; check the permissions of its file and directory, or of its user",
	Unavailable: "the database is unreachable or busy",
	Corrupt:     "the database is damaged; restore it from a backup, or move it away to start with an empty one",
	Newer:       "a newer version of agent-runner created the database; use that version",
	Failed:      "the database failed",
}

// Error returns the database, the advice, and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("store %s: %s: %v", e.Database, advice[e.Kind], e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether a retry may succeed.
func (e *Error) Retryable() bool { return e.Kind == Unavailable }

// Corruptf returns an error for the caller of a transaction that found damaged data.
func Corruptf(format string, args ...any) error {
	return ForCaller(&Error{Kind: Corrupt, Err: fmt.Errorf(format, args...)})
}

// A callerError marks an error for the caller of a transaction; see [ForCaller].
type callerError struct{ error }

func (e callerError) Unwrap() error { return e.error }

// ForCaller marks an error of a transaction's function that is meant for the transaction's
// caller, as opposed to a failure of the database. [DB] returns err itself.
func ForCaller(err error) error { return callerError{err} }

// Classified reports whether a [DB] can return err without classifying it: err was marked by
// [ForCaller], is the error of a context, or is an [*Error] already. Classified returns err without
// the mark of ForCaller. If err is an [*Error] without a Database, Classified sets that field to
// database.
func Classified(err error, database string) (error, bool) {
	var marked callerError
	var known *Error
	switch {
	case errors.As(err, &marked):
		err = marked.error
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err, true
	case !errors.As(err, &known):
		return err, false
	}
	if errors.As(err, &known) && known.Database == "" {
		known.Database = database
	}
	return err, true
}
