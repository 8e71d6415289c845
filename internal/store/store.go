// Package store keeps what outlasts a process: runs, with the journal of all
// that they did, the modules that they run with, the durable values of modules,
// and the tenants of a platform with what is theirs. It is SQL, in SQLite or in
// PostgreSQL; package storetest is what both have to pass.
//
// A run is a row of its own, its log and its events. One transaction takes an
// entry of the log, the events that it led to and the run's counters, and
// checks that whoever writes has the run's last claim, and has seen all that
// was written before. So there is no state without its events, no number of an
// event that is missing, and no second process that writes to the same run.
//
// Large bytes are written before their transaction, in pieces with transactions of
// their own and rests between them: others who write wait for one piece at most.
package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// A Store keeps runs, modules and values. It is safe for concurrent use.
//
// Errors of the database are an [*Error], which says what to do; those that an
// agent or a module branches on are the ones of their own packages.
type Store interface {
	journal.Journal
	chain.Values
	Platform
	Quarantine

	// Run returns what is known of a run, or fails with agent.ErrNoRun.
	Run(ctx context.Context, id string) (*journal.RunInfo, error)
	// Runs returns a page of the runs that the filter selects, the newest first, and the
	// position of its last run if more follow.
	Runs(ctx context.Context, f *Filter) ([]journal.RunInfo, *Position, error)
	// Cancel asks whoever runs a run to cancel it.
	Cancel(ctx context.Context, run string) error
	// Canceled returns the runs of an owner that Cancel was called for and that have not
	// ended.
	Canceled(ctx context.Context, owner string) ([]string, error)
	// Abandon ends a run that nobody runs any more and that cannot go on, with the
	// event that says so: no module learns of it.
	Abandon(ctx context.Context, run, reason string) error
	// Delete forgets a run. One that somebody runs stays: agent.ErrBusy.
	Delete(ctx context.Context, run string) error

	// Prune forgets runs of which nothing has changed for so long, and returns how
	// many: of all tenants, those that have come to their end.
	Prune(ctx context.Context, o PruneOptions) (int, error)

	// PutModule keeps the bytes of a module and returns their SHA-256 in
	// hexadecimal; Module returns them, or fails with [ErrNoModule]. One that is put
	// again is as young for DeleteOrphans as a new one.
	PutModule(ctx context.Context, wasm []byte) (digest string, err error)
	Module(ctx context.Context, digest string) ([]byte, error)

	// Close closes the database. What is being written is waited for.
	Close() error
}

// A Filter selects a page of runs. The zero value selects the operator's newest 100.
type Filter struct {
	Tenant string
	Agent  string
	Status journal.Status
	Page
}

// PruneOptions say which runs are forgotten.
type PruneOptions struct {
	// OlderThan is how long ago they last changed, by the database's clock.
	OlderThan time.Duration
	// Unfinished are forgotten too: those that wait for answers, or were cut off.
	// One that somebody runs never is.
	Unfinished bool
	// DryRun counts them only.
	DryRun bool
}

// Options open a store. The zero value has the defaults.
type Options struct {
	// Retention is how long runs are kept that have come to their end. They are
	// looked for when the store is opened, and then every hour, or more often if it
	// is shorter. 0: they are kept until somebody forgets them.
	Retention time.Duration
	// Quota bounds the durable values of each tenant, and of each of its entries.
	Quota Quota
	// Keyring seals the secrets of tenants; nil: none can be kept.
	Keyring *Keyring
}

// A Quota bounds durable values.
type Quota struct {
	Bytes   int64 // of an entry's keys and values together; 16 MiB when 0
	Keys    int64 // of an entry; 10,000 when 0
	Value   int64 // bytes of one value; 1 MiB when 0
	All     int64 // bytes of all entries of a tenant, where [TenantQuota] says nothing; 64 MiB when 0
	Entries int64 // of a tenant that have values; 1,000 when 0
}

func (q Quota) complete() Quota {
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

// Open opens a store: postgres://… or the path of an SQLite database, which is
// made if it is not there. A database of a newer version of this program is
// refused, one of an older version is brought up to date.
func Open(ctx context.Context, where string, o *Options) (Store, error) {
	if o == nil {
		o = &Options{}
	}
	var d database
	var err error
	switch scheme, _, ok := strings.Cut(where, "://"); {
	case where == "":
		return nil, fmt.Errorf("open store: want the path of a database, or postgres://…")
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		d, err = openPostgres(ctx, where)
	case ok && scheme != "file":
		return nil, fmt.Errorf("open store: %s:// is no database known here; want the path of an SQLite database, or postgres://…", scheme)
	default:
		d, err = openSQLite(ctx, strings.TrimPrefix(where, "file://"))
	}
	if err != nil {
		return nil, err
	}
	s := &store{database: d, quota: o.Quota.complete(), keyring: o.Keyring, piece: make(chan struct{}, 1), stop: func() {}}
	if err := s.migrate(ctx); err != nil {
		_ = d.close()
		return nil, err
	}
	if o.Retention > 0 {
		s.retain(o.Retention)
	}
	return s, nil
}

// A store is a Store over either database.
type store struct {
	database
	quota   Quota
	keyring *Keyring
	piece   chan struct{} // of large bytes: one is written at a time
	stop    func()        // what goes on beside
}

// A database is what is different between the databases.
type database interface {
	// update runs fn in a transaction, which is rolled back if fn fails. A lazy
	// one outlasts the process, and a failure of power only together with a later one
	// that is not lazy.
	update(ctx context.Context, lazy bool, fn func(tx) error) error
	// commit is an update that is not lazy. Once it outlasts the process, and is not
	// safe yet, it may call written: not if that is nil.
	commit(ctx context.Context, written func(), fn func(tx) error) error
	// view runs fn, which only reads, and sees one state of the database.
	view(ctx context.Context, fn func(tx) error) error
	// exclusive runs fn in a transaction while no other process is in one of its own.
	exclusive(ctx context.Context, fn func(tx) error) error
	// dialect puts what differs into SQL.
	dialect(sql string) string
	close() error
}

// A tx is a transaction. Parameters are $1, $2, and so on.
type tx interface {
	// exec returns how many rows it changed.
	exec(sql string, args ...any) (int64, error)
	// query calls scan for each row.
	query(scan func(scan func(...any) error) error, sql string, args ...any) error
}

// Close implements [Store].
func (s *store) Close() error {
	s.stop()
	return s.close()
}

// one reads one row, and reports whether there is one.
func one(t tx, sql string, args []any, out ...any) (found bool, err error) {
	err = t.query(func(scan func(...any) error) error {
		found = true
		return scan(out...)
	}, sql, args...)
	return found, err
}
