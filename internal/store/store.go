// Package store persists runs with their journals, modules, the durable values of modules, and
// the tenants of a platform with their data. [Open] takes a path or a URL and returns a [Store]
// over SQLite or PostgreSQL. Package storetest tests both.
//
// A run is a row, a log and events. One transaction writes an entry of the log, the events
// that it led to and the run's counters. The transaction verifies that its writer holds the
// run's last claim and has read everything written before. Therefore state and events agree,
// event numbers have no gaps, and only one process writes to a run.
//
// This package holds the SQL statements. Package database and its implementations access the
// databases, package migrations holds the schema, and package blob writes large bytes. The store
// does not import the server; package api has the server's API types.
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
	"github.com/agent-runner/agent-runner/internal/store/migrations"
	"github.com/agent-runner/agent-runner/internal/store/postgres"
	"github.com/agent-runner/agent-runner/internal/store/sqlite"
)

// A Store holds runs, modules and values. It is safe for concurrent use.
//
// A failure of the database is a [*database.Error], which includes advice. Packages journal and
// hook define the errors for agents and modules.
type Store interface {
	journal.Journal
	hook.Values
	Platform
	Quarantine
	Replays

	// Run returns a run. It fails with [journal.ErrNoRun] if the run does not exist.
	Run(ctx context.Context, id string) (*journal.RunInfo, error)
	// Runs returns a page of the runs that the filter selects, the newest first unless f.Oldest is set. If there may
	// be more runs, it also returns the position after which the next page starts. A nil filter is like an empty one.
	Runs(ctx context.Context, f *Filter) ([]journal.RunInfo, *Position, error)
	// Cancel asks the process that executes a run to cancel it. It fails with [journal.ErrNoRun] if
	// the run does not exist, and with [journal.ErrFinished] if the run has finished.
	Cancel(ctx context.Context, run string) error
	// Canceled returns the running runs of an owner for which Cancel was called.
	Canceled(ctx context.Context, owner string) ([]string, error)
	// Abandon finishes a run that no process executes and that cannot be resumed. It appends the
	// run's last event and calls no module. It fails with [journal.ErrNoRun] if the run does not
	// exist, with [journal.ErrFinished] if the run has finished, and with [journal.ErrBusy] if a
	// process executes the run or the run is quarantined.
	Abandon(ctx context.Context, run, reason string) error
	// Delete deletes a run. It fails with [journal.ErrNoRun] if the run does not exist, and with
	// [journal.ErrBusy] if a process executes the run.
	Delete(ctx context.Context, run string) error

	// Prune deletes old runs of all tenants, by default those that finished, and returns
	// their number. It also deletes threads without unfinished runs that are as old.
	Prune(ctx context.Context, o PruneOptions) (int, error)

	// PutModule stores the bytes of a module and returns their SHA-256 in hexadecimal.
	// Storing a module again renews its age for DeleteUnusedModules.
	PutModule(ctx context.Context, wasm []byte) (digest string, err error)
	// Module returns the bytes of a module. It fails with [ErrNoModule] if no module with the
	// digest is stored.
	Module(ctx context.Context, digest string) ([]byte, error)

	// Close waits for transactions in progress and closes the database.
	Close() error
}

// Errors of a [Store].
var (
	ErrNoModule  = errors.New("no such module")
	ErrNoTenant  = errors.New("no such tenant")
	ErrNoKey     = errors.New("no such key")
	ErrNoAgent   = errors.New("no such agent")
	ErrNoAlias   = errors.New("no such alias")
	ErrNoGateway = errors.New("no gateway is stored")
	ErrNoRollout = errors.New("no such rollout")
	ErrNoReplay  = errors.New("no such replay")
	ErrNoSecret  = errors.New("no such secret")
	ErrExists    = errors.New("already exists")
	ErrInUse     = errors.New("in use")
)

// errNoVersion reports that an agent lacks a version. It is an [ErrNoAgent].
var errNoVersion noVersionError

type noVersionError struct{}

func (noVersionError) Error() string { return "no such version" }

func (noVersionError) Is(err error) bool { return err == ErrNoAgent }

// PruneOptions select the runs that [Store.Prune] deletes.
type PruneOptions struct {
	// OlderThan is the minimum time since the last change of a run, by the database's clock.
	OlderThan time.Duration
	// Unfinished includes runs that are paused or whose process has ended. Runs that a
	// process executes are never deleted.
	Unfinished bool
	// DryRun counts the runs without deleting them.
	DryRun bool
}

// A Quota limits durable values.
type Quota struct {
	Bytes   int64 // keys and values of one entry together; the default is 16 MiB
	Keys    int64 // keys of one entry; the default is 10,000
	Value   int64 // bytes of one value; the default is 1 MiB
	All     int64 // bytes of all entries of a tenant whose [TenantQuota] sets no limit; the default is 64 MiB
	Entries int64 // entries of a tenant that have values; the default is 1,000
}

// withDefaults returns the quota with zeros replaced by defaults.
func (q Quota) withDefaults() Quota {
	for _, f := range []struct {
		field *int64
		value int64
	}{{&q.Bytes, 16 << 20}, {&q.Keys, 10_000}, {&q.Value, 1 << 20}, {&q.All, 64 << 20}, {&q.Entries, 1_000}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return q
}

// Open opens the store at a PostgreSQL URL (postgres://…) or at the path of an SQLite database. It creates a missing
// SQLite database and its directory, but not the directories above that one. It migrates a database of an older
// version of this program. It rejects a database that a newer version changed so that this version does not work with
// it.
func Open(ctx context.Context, location string, o *Options) (Store, error) {
	var db database.DB
	var err error
	switch scheme, _, ok := strings.Cut(location, "://"); {
	case location == "":
		return nil, fmt.Errorf("open store: want the path of a database, or postgres://…")
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		db, err = postgres.Open(ctx, location)
	case ok && scheme != "file":
		return nil, fmt.Errorf("open store: %s:// is not supported; want the path of an SQLite database, or postgres://…",
			scheme)
	default:
		db, err = sqlite.Open(ctx, strings.TrimPrefix(location, "file://"))
	}
	if err != nil {
		return nil, err
	}
	s, err := newStore(ctx, db, o)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return s, nil
}

// ErrNoBackup rejects a backup of a PostgreSQL database, which PostgreSQL's own programs do.
var ErrNoBackup = errors.New("only SQLite databases are backed up by this program; use pg_basebackup or pg_dump")

// Backup writes a snapshot of the SQLite database at location to a new file, while other processes use
// the database. It fails with [ErrNoBackup] for PostgreSQL, and with [fs.ErrExist] if there is a file
// at to.
func Backup(ctx context.Context, location, to string) error {
	if scheme, _, ok := strings.Cut(location, "://"); ok && scheme != "file" {
		return ErrNoBackup
	}
	return sqlite.Backup(ctx, strings.TrimPrefix(location, "file://"), to)
}

// New returns a store over an open database, which it migrates as [Open] does. [Store.Close] closes db,
// but New does not close it if it fails.
func New(ctx context.Context, db database.DB, o *Options) (Store, error) {
	s, err := newStore(ctx, db, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// A store is a [Store] over either database.
type store struct {
	db      database.DB
	blobs   *blob.Writer
	quota   Quota
	keyring *keyring.Keyring
	cost    CostFunc
	stop    func() // stops pruning
}

func newStore(ctx context.Context, db database.DB, o *Options) (*store, error) {
	if o == nil {
		o = &Options{}
	}
	if err := migrations.Apply(ctx, db); err != nil {
		return nil, err
	}
	s := &store{
		db:      db,
		blobs:   blob.NewWriter(db),
		quota:   o.Quota.withDefaults(),
		keyring: o.Keyring,
		cost:    o.Cost,
		stop:    func() {},
	}
	if o.Retention > 0 {
		s.pruneRegularly(o.Retention)
	}
	return s, nil
}

// Close implements [Store].
func (s *store) Close() error {
	s.stop()
	return s.db.Close()
}

// Options configure a store. The zero value has the defaults.
type Options struct {
	// Retention is the age at which the store deletes finished runs. The store searches for such runs
	// when it is opened, and then at intervals of a tenth of Retention, but at least a second and at
	// most an hour. If Retention is 0, runs are kept forever.
	Retention time.Duration
	// Quota limits the durable values of each tenant, and of each of its entries.
	Quota Quota
	// Keyring seals the secrets of tenants. Without one, secrets cannot be stored.
	Keyring *keyring.Keyring
	// Cost returns the cost of a model's tokens, in billionths of the currency. It is called when the
	// tokens of a tenant's run are stored; later prices do not change the cost. If Cost is nil, nothing
	// has a cost.
	Cost CostFunc
}

// A CostFunc returns the cost of tokens of a model, in billionths of the currency.
type CostFunc func(model string, promptTokens, completionTokens int64) int64
