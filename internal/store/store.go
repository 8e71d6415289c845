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
// databases, package migrations holds the schema, package blob writes large bytes, package terms makes
// the terms by which lists find runs, and package keyring seals secrets. The store does not import the
// server; package api has the server's API types.
//
// A file is named after what it stores. It has the methods of [Tenant], which access the rows of one
// tenant, and those of [Store] and [Platform], which are for the operator.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
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

// A Platform holds the tenants of a server and their data. Its own methods are for the operator;
// only [Platform.Tenant] gives access to the data of one tenant.
type Platform interface {
	// Tenant returns access to the data of a tenant. It does not check that the tenant
	// exists: for an unknown tenant, lists are empty and additions fail with [ErrNoTenant].
	Tenant(id string) *Tenant

	// CreateTenant creates a tenant. It fails with [ErrExists] if a tenant with the id exists.
	CreateTenant(ctx context.Context, id, name string, q TenantQuota, policy json.RawMessage) (*TenantInfo, error)
	// TenantInfo describes a tenant. It fails with [ErrNoTenant] if the tenant does not exist.
	TenantInfo(ctx context.Context, id string) (*TenantInfo, error)
	// Tenants returns a page of the tenants ordered by id, and the position of its last
	// tenant if more follow.
	Tenants(ctx context.Context, p Page) ([]TenantInfo, *Position, error)
	// UpdateTenant changes the fields of a tenant that are not nil in u. It fails with
	// [ErrNoTenant] if the tenant does not exist.
	UpdateTenant(ctx context.Context, id string, u *TenantUpdate) (*TenantInfo, error)
	// DeleteTenant deletes a tenant and everything that belongs to it, its runs first. It works in
	// batches, so that others can write in between. It fails with [ErrNoTenant] if the tenant does
	// not exist, and with [ErrInUse] while the tenant has runs in progress; runs that it deleted
	// before one started stay deleted. The operator's tenant is always in use.
	DeleteTenant(ctx context.Context, id string) error

	// Authenticate returns the key with the given text and its tenant, and records the key's
	// use. It fails with a [*KeyError] if the key is unknown, revoked or expired.
	Authenticate(ctx context.Context, text string) (*Key, *TenantInfo, error)

	// AuthenticateToken is like Authenticate, for the token of an end user. It also fails if the key that created
	// the token is no longer valid.
	AuthenticateToken(ctx context.Context, text string) (*Token, *TenantInfo, error)
	// EndedTokens returns which of the tokens with the given ids were deleted, expired at least grace ago, or
	// were created by a key that is no longer valid.
	EndedTokens(ctx context.Context, ids []string, grace time.Duration) (ended []string, err error)
	// PruneTokens deletes tokens that expired more than an hour ago, and returns their number.
	PruneTokens(ctx context.Context) (int64, error)
	// HasOrigin reports whether exact or wildcard is an origin of any tenant; see [Tenant.HasOrigin].
	HasOrigin(ctx context.Context, exact, wildcard string) (bool, error)

	// MapGroup gives users of a group of the identity provider a role in a tenant. It replaces an
	// earlier role of the group in the tenant. It fails with [ErrNoTenant] if the tenant does not
	// exist, and with a [*QuotaError] if there are 1,000 roles of groups.
	MapGroup(ctx context.Context, group, tenant, role string) (*GroupRole, error)
	// GroupRoles returns a page of the roles of groups ordered by id, and the position of its last role if more
	// follow.
	GroupRoles(ctx context.Context, p Page) ([]GroupRole, *Position, error)
	// UnmapGroup removes a role of a group. It fails with [ErrNoMember] if no role of a group has the id.
	UnmapGroup(ctx context.Context, id string) error

	// SignIn creates a session of a person who has a role. It returns the session's token, which is
	// not stored, and the person's roles, the oldest first. If the person's verified e-mail address
	// was invited, SignIn makes the person a member. It fails with [ErrExists] if the state was used
	// before, and with [ErrNoMember] if the person has no role.
	SignIn(ctx context.Context, in *NewSession) (token string, roles []TenantRole, err error)
	// Session returns the person of a session and the person's present roles, and records the use of
	// the session. It fails with [ErrNoSession] if there is no such session, or it has expired or was
	// not used for the duration idle.
	Session(ctx context.Context, token string, idle time.Duration) (*Person, []TenantRole, error)
	// SignOut deletes a session, or all sessions of its person if everywhere is true. It has no effect if the session
	// does not exist, and fails with [ErrNoSession] if token is malformed.
	SignOut(ctx context.Context, token string, everywhere bool) error
	// Roles returns the roles of a person without a session. Like SignIn, it accepts invitations.
	Roles(ctx context.Context, p *Person) ([]TenantRole, error)

	// ExpireThreads deletes the threads that are older than the retention of their tenants, with
	// their messages and runs. It also deletes the rest of threads whose deletion or fork was
	// interrupted. It deletes in small batches, and returns the number of expired threads that it
	// deleted.
	ExpireThreads(ctx context.Context) (deleted int, err error)
	// PruneAudit deletes records of audit logs that are older than age, unless age is 0, and those
	// beyond the newest million of each log. It never deletes the newest record of a log. It returns
	// the number of deleted records.
	PruneAudit(ctx context.Context, age time.Duration) (int64, error)

	// Block prevents calls of a module for all tenants, until Unblock is called. Unblock fails with
	// [ErrNoModule] if the module is not blocked.
	Block(ctx context.Context, digest, reason string) error
	Unblock(ctx context.Context, digest string) error
	// Blocked returns all blocks. Blocks returns a page of them ordered by digest, and the
	// position of its last block if more follow.
	Blocked(ctx context.Context) ([]Block, error)
	Blocks(ctx context.Context, p Page) ([]Block, *Position, error)

	// JournalBytes returns the size of the journals of all tenants' runs.
	JournalBytes(ctx context.Context) (int64, error)

	// MissingKeys returns the names of keys that sealed secrets and that this store's
	// keyring lacks or has with another value. It tries the oldest and the newest secret of
	// each name.
	MissingKeys(ctx context.Context) ([]string, error)

	// Now returns the time by the database's clock, which decides when leases and keys
	// expire and days end.
	Now(ctx context.Context) (time.Time, error)

	// ExpiredRuns returns at most limit runs in progress whose lease has expired, and at most perTenant
	// runs of each tenant: first the run of each tenant that expired first, then the second of each. It
	// omits the runs of sub-agents. It also omits the operator's runs whose spec does not start with
	// specPrefix, because these belong to commands.
	ExpiredRuns(ctx context.Context, specPrefix []byte, limit, perTenant int) ([]journal.RunInfo, error)

	// ActiveRollouts returns at most limit active rollouts of all tenants that were last checked
	// before the given time, the earliest check first.
	ActiveRollouts(ctx context.Context, checked time.Time, limit int) ([]Rollout, error)

	// StartableRuns returns at most limit queued runs that are the next ones of their threads, the
	// oldest first, unless a process has reserved them.
	StartableRuns(ctx context.Context, limit int) ([]journal.RunInfo, error)

	// DeleteUnusedModules deletes modules that have been in the store for longer than age,
	// belong to no tenant and are used by no run. It returns their number.
	DeleteUnusedModules(ctx context.Context, age time.Duration) (int64, error)
}

// Operator is the id of the operator's own tenant. No other tenant can access its data, and it
// has no quota.
const Operator = ""

// Name matches the ids of tenants, and the names of agents and modules.
var Name = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

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

// Now implements [Platform].
func (s *store) Now(ctx context.Context) (at time.Time, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		at, err = nowIn(t)
		return err
	})
	return at, err
}

// ExpiredRuns implements [Platform].
func (s *store) ExpiredRuns(
	ctx context.Context,
	specPrefix []byte,
	limit, perTenant int,
) (out []journal.RunInfo, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		return t.Query(func(scan func(...any) error) error {
			info, err := scanRun(scan)
			if err == nil {
				out = append(out, *info)
			}
			return err
		}, `SELECT `+runColumns+` FROM
			(SELECT runs.*, row_number() OVER (PARTITION BY tenant ORDER BY lease_ms, id) AS nth FROM runs
				WHERE status = 'running' AND (tenant <> '' OR substr(spec, 1, $3) = $4) AND parent = '' AND lease_ms <= NOW_MS
			) AS expired
			WHERE nth <= $2 ORDER BY nth, lease_ms LIMIT $1`, int64(limit), int64(perTenant), int64(len(specPrefix)), specPrefix)
	})
	return out, err
}
