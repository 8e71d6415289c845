// Package store opens the database of runs, modules and tenants: SQLite or PostgreSQL. A store is
// the journal in [host.JournalOptions], and holds the data of a platform that package server
// serves.
package store

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
)

type (
	// A Store holds runs with their journals, modules, durable values and tenants. Its
	// methods are safe for concurrent use, also by several processes with PostgreSQL.
	Store = store.Store
	// Options configure a store. The zero value has the defaults.
	Options = store.Options
	// A Filter selects runs of a [Store].
	Filter = store.Filter
	// PruneOptions select the runs to delete.
	PruneOptions = store.PruneOptions
	// A Keyring encrypts the secrets of tenants.
	Keyring = keyring.Keyring
)

// Open opens the store at a PostgreSQL URL (postgres://…) or at the path of an SQLite database. It creates a missing
// SQLite database and its directory, but not the directories above that one. It migrates a database of an older
// version. It rejects a database that a newer version changed so that this version does not work with it. o may be
// nil. The caller closes the store.
func Open(ctx context.Context, location string, o *Options) (Store, error) {
	return store.Open(ctx, location, o)
}

// ParseKeyring parses lines of name:key, with the key's 32 bytes in base64, newest first. It
// ignores empty lines and lines that start with #.
func ParseKeyring(text string) (*Keyring, error) { return keyring.Parse(text) }
