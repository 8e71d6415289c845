package store

import (
	"errors"
	"fmt"
)

// A Kind says what is wrong with a database.
type Kind string

// What may be wrong.
const (
	Full     Kind = "full"      // there is no room left for it
	ReadOnly Kind = "read_only" // it cannot be written to
	Gone     Kind = "gone"      // it is not reached, or busy; worth another try
	Corrupt  Kind = "corrupt"   // what is in it makes no sense
	Newer    Kind = "newer"     // a newer version of this program made it
	Broken   Kind = "broken"    // anything else
)

// An Error is one of the database. Nothing of what was to be written is there, unless the
// disk failed to keep it, which nothing is written after.
type Error struct {
	Kind  Kind
	Where string // which database
	Err   error
}

var advice = map[Kind]string{
	Full:     "there is no room left for the database; make room, and resume the run",
	ReadOnly: "the database cannot be written to; check the permissions of its file and directory, or of its user",
	Gone:     "the database is not reached, or busy",
	Corrupt:  "the database is damaged; restore it from a copy, or move it away to begin a new one",
	Newer:    "the database was made by a newer version of agent-runner; use that one",
	Broken:   "the database failed",
}

// Error says what is wrong, where, and what to do.
func (e *Error) Error() string {
	return fmt.Sprintf("store %s: %s: %v", e.Where, advice[e.Kind], e.Err)
}

// Unwrap returns the database's own error.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether another try may succeed.
func (e *Error) Retryable() bool { return e.Kind == Gone }

// ErrNoModule is the error where a module is not in the store.
var ErrNoModule = errors.New("there is no such module in the store")

// own reports whether an error is this package's caller's business, and no
// failure of the database.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }
