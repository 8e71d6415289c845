package store

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// Operator is the id of the operator's own tenant. No other tenant can access its data, and it
// has no quota.
const Operator = ""

// Name matches the ids of tenants, and the names of agents, modules and the keys of a [Keyring].
var Name = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

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

// A TenantInfo describes a tenant.
type TenantInfo struct {
	ID      string
	Name    string
	Quota   TenantQuota
	Policy  json.RawMessage // a JSON object that the server defines
	Created time.Time
	Updated time.Time
}

// A TenantUpdate selects changes of a tenant. Nil fields do not change.
type TenantUpdate struct {
	Name   *string
	Quota  *TenantQuota
	Policy json.RawMessage
}

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
