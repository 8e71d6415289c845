package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// What a caller of the platform's tables may branch on.
var (
	ErrNoTenant = errors.New("there is no such tenant")
	ErrNoKey    = errors.New("there is no such key")
	ErrNoAgent  = errors.New("there is no such agent")
	ErrNoSecret = errors.New("there is no such secret")
	ErrTaken    = errors.New("it is there already")
	ErrInUse    = errors.New("it is in use")
)

// Operator is the tenant that the operator is: what it owns is shared with
// nobody, and it has no quota.
const Operator = ""

// A Platform keeps the tenants of a server and what belongs to them. Its own
// methods are the operator's; what belongs to a tenant is reached through
// [Platform.Tenant] alone.
type Platform interface {
	// Tenant is what belongs to one tenant. It does not look whether there is one:
	// of a tenant that is not there everything is empty, and nothing can be added.
	Tenant(id string) *Tenant

	CreateTenant(ctx context.Context, id, name string, q TenantQuota, policy json.RawMessage) (*TenantInfo, error)
	// TenantInfo fails with [ErrNoTenant].
	TenantInfo(ctx context.Context, id string) (*TenantInfo, error)
	// Tenants returns a page of the tenants in the order of their ids, and the position of
	// its last tenant if more follow.
	Tenants(ctx context.Context, p Page) ([]TenantInfo, *Position, error)
	// UpdateTenant changes what is not nil.
	UpdateTenant(ctx context.Context, id string, u *TenantUpdate) (*TenantInfo, error)
	// DeleteTenant forgets a tenant and everything that belongs to it: its runs first,
	// some at a time, so that others write in between. One with runs under way stays,
	// without those that were forgotten before one began: [ErrInUse].
	DeleteTenant(ctx context.Context, id string) error

	// Authenticate returns the key that a caller shows, with its tenant, and counts
	// its use. It fails with a [*KeyError].
	Authenticate(ctx context.Context, shown string) (*Key, *TenantInfo, error)

	// Block keeps a module from being called for any tenant, until Unblock.
	Block(ctx context.Context, digest, reason string) error
	Unblock(ctx context.Context, digest string) error
	// Blocked returns all blocks. Blocks returns a page of them in the order of their
	// digests, and the position of its last block if more follow.
	Blocked(ctx context.Context) ([]Block, error)
	Blocks(ctx context.Context, p Page) ([]Block, *Position, error)

	// LostKeys names the keys that sealed secrets which this store's keyring cannot
	// open: of each name the oldest and the newest secret are tried.
	LostKeys(ctx context.Context) ([]string, error)

	// Now is the time by the database's clock, by which leases, keys and days are judged.
	Now(ctx context.Context) (time.Time, error)

	// CutOff lists runs whose process is gone: nobody has shown a sign of life for them
	// as long as their lease was. The longest gone come first, of each tenant a few. Of
	// the operator's own it lists those alone whose spec begins as spec does: others
	// were begun by a command, whose they are.
	CutOff(ctx context.Context, spec []byte, limit, ofTenant int) ([]journal.RunInfo, error)

	// DeleteOrphans deletes modules of the store that no tenant names, and no run
	// in it began with, if they were there for longer than age.
	DeleteOrphans(ctx context.Context, age time.Duration) (int64, error)
}

// A TenantInfo is what the operator keeps of a tenant.
type TenantInfo struct {
	ID      string
	Name    string
	Quota   TenantQuota
	Policy  json.RawMessage // what the server takes for one; {} at least
	Created time.Time
	Updated time.Time
}

// A TenantQuota bounds a tenant; what is zero is not bounded.
type TenantQuota struct {
	ConcurrentRuns     int64 `json:"concurrent_runs,omitempty" minimum:"0" doc:"Runs under way at once."`
	RunsPerDay         int64 `json:"runs_per_day,omitempty" minimum:"0" doc:"Runs that begin on a day (UTC)."`
	TokensPerDay       int64 `json:"tokens_per_day,omitempty" minimum:"0" doc:"Tokens of models on a day, prompts and answers together. A run that has begun ends."`
	FuelPerDay         int64 `json:"fuel_per_day,omitempty" minimum:"0" doc:"Fuel of modules on a day. A run that has begun ends."`
	Modules            int64 `json:"modules,omitempty" minimum:"0" doc:"Modules that are kept."`
	StorageBytes       int64 `json:"storage_bytes,omitempty" minimum:"0" doc:"Bytes of modules, agents and secrets that are kept."`
	ValueBytes         int64 `json:"value_bytes,omitempty" minimum:"0" doc:"Bytes of durable values that modules keep. Default: 67108864."`
	JournalBytes       int64 `json:"journal_bytes,omitempty" minimum:"0" doc:"Bytes of the journals of runs that are kept. A run in progress that passes it ends. Default: 4294967296."`
	JournalBytesPerDay int64 `json:"journal_bytes_per_day,omitempty" minimum:"0" doc:"Bytes that runs write to their journals on a day (UTC). A run in progress that passes it ends. Default: 2147483648."`
	MemoryBytes        int64 `json:"memory_bytes,omitempty" minimum:"0" doc:"Bytes that one server holds in memory for all runs under way together. Default: a quarter of the server's."`
	UploadBytes        int64 `json:"upload_bytes,omitempty" minimum:"0" doc:"Bytes of one module."`
	InputBytes         int64 `json:"input_bytes,omitempty" minimum:"0" doc:"Bytes of a request that begins a run, or goes on with one; 8388608 at most. Default: 1048576."`
	Requests           int64 `json:"concurrent_requests,omitempty" minimum:"0" doc:"Requests under way at once on one server, streams of events included. Default: 4096."`
	RequestsPerMin     int64 `json:"requests_per_minute,omitempty" minimum:"0" doc:"Requests a minute, on one server."`
}

// A TenantUpdate says what of a tenant changes.
type TenantUpdate struct {
	Name   *string
	Quota  *TenantQuota
	Policy json.RawMessage
}

// A Block is a module that is not called.
type Block struct {
	Digest  string
	Reason  string
	Created time.Time
}

// Name is what tenants, agents, modules and secrets may be called.
var Name = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Tenant implements [Platform].
func (s *store) Tenant(id string) *Tenant { return &Tenant{s: s, id: id} }

const tenantColumns = `id, name, quota, policy, created_ms, updated_ms`

func scanTenant(scan func(...any) error) (*TenantInfo, error) {
	var info TenantInfo
	var quota, policy string
	var created, updated int64
	if err := scan(&info.ID, &info.Name, &quota, &policy, &created, &updated); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(quota), &info.Quota); err != nil {
		return nil, ownError{&Error{Corrupt, "", fmt.Errorf("the quota of tenant %s: %w", info.ID, err)}}
	}
	info.Policy, info.Created, info.Updated = json.RawMessage(policy), time.UnixMilli(created), time.UnixMilli(updated)
	return &info, nil
}

func tenantIn(t tx, id string) (info *TenantInfo, err error) {
	err = t.query(func(scan func(...any) error) error {
		info, err = scanTenant(scan)
		return err
	}, `SELECT `+tenantColumns+` FROM tenants WHERE id = $1`, id)
	if err == nil && info == nil {
		err = ownError{fmt.Errorf("tenant %q: %w", id, ErrNoTenant)}
	}
	return info, err
}

// CreateTenant implements [Platform].
func (s *store) CreateTenant(ctx context.Context, id, name string, q TenantQuota, policy json.RawMessage) (info *TenantInfo, err error) {
	quota, err := marshal(q)
	if err != nil {
		return nil, err
	}
	if len(policy) == 0 {
		policy = json.RawMessage("{}")
	}
	err = s.update(ctx, false, func(t tx) error {
		n, err := t.exec(`INSERT INTO tenants (`+tenantColumns+`) VALUES ($1, $2, $3, $4, NOW_MS, NOW_MS) ON CONFLICT (id) DO NOTHING`,
			id, name, quota, string(policy))
		if err != nil {
			return err
		}
		if n == 0 {
			return ownError{fmt.Errorf("tenant %q: %w", id, ErrTaken)}
		}
		info, err = tenantIn(t, id)
		return err
	})
	return info, err
}

// TenantInfo implements [Platform].
func (s *store) TenantInfo(ctx context.Context, id string) (info *TenantInfo, err error) {
	err = s.view(ctx, func(t tx) error {
		info, err = tenantIn(t, id)
		return err
	})
	return info, err
}

// Tenants implements [Platform].
func (s *store) Tenants(ctx context.Context, p Page) (tenants []TenantInfo, next *Position, err error) {
	err = s.view(ctx, func(t tx) (err error) {
		tenants, next, err = list(t, p, func(scan func(...any) error) (i TenantInfo, err error) {
			info, err := scanTenant(scan)
			if err == nil {
				i = *info
			}
			return i, err
		}, func(i *TenantInfo) Position { return Position{Name: i.ID} },
			`SELECT `+tenantColumns+` FROM tenants WHERE id > $1 AND id <> '' ORDER BY id LIMIT $2`, p.name())
		return err
	})
	return tenants, next, err
}

// UpdateTenant implements [Platform].
func (s *store) UpdateTenant(ctx context.Context, id string, u *TenantUpdate) (info *TenantInfo, err error) {
	err = s.update(ctx, false, func(t tx) error {
		// The row is held from here on, so that of two changes none is lost.
		if _, err := t.exec(`UPDATE tenants SET updated_ms = NOW_MS WHERE id = $1`, id); err != nil {
			return err
		}
		if info, err = tenantIn(t, id); err != nil {
			return err
		}
		if u.Name != nil {
			info.Name = *u.Name
		}
		if u.Quota != nil {
			info.Quota = *u.Quota
		}
		if u.Policy != nil {
			info.Policy = u.Policy
		}
		quota, err := marshal(info.Quota)
		if err != nil {
			return err
		}
		_, err = t.exec(`UPDATE tenants SET name = $2, quota = $3, policy = $4 WHERE id = $1`, id, info.Name, quota, string(info.Policy))
		return err
	})
	return info, err
}

// ofTenants are the tables that have a tenant's rows, beside those of its runs.
var ofTenants = []string{"api_keys", "tenant_modules", "module_names", "agents", "agent_room", "agent_modules", "tenant_usage", "usage_days", "journal_room", "run_places", "secrets",
	"module_values", "module_usage"}

// DeleteTenant implements [Platform].
func (s *store) DeleteTenant(ctx context.Context, id string) error {
	if id == Operator {
		return fmt.Errorf("tenant %q: %w: it is the operator", id, ErrInUse)
	}
	if err := inTurns(ctx, func() (more bool, err error) {
		err = s.update(ctx, false, func(t tx) error {
			more, err = deleteTenant(t, id)
			return err
		})
		return more, err
	}); err != nil {
		return err
	}
	return s.sweep(ctx)
}

// deleteTenant deletes runs of a tenant, and itself with the last of them. It reports
// whether there are more.
func deleteTenant(t tx, id string) (more bool, err error) {
	// The row is held from here on: no run begins meanwhile.
	n, err := t.exec(`UPDATE tenants SET id = id WHERE id = $1`, id)
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, ownError{fmt.Errorf("tenant %q: %w", id, ErrNoTenant)}
	}
	var running int64
	if _, err := one(t, `SELECT count(*) FROM runs WHERE tenant = $1 AND status = 'running' AND lease_ms > NOW_MS`, []any{id}, &running); err != nil {
		return false, err
	}
	if running > 0 {
		return false, ownError{fmt.Errorf("tenant %q: %w: %d runs are under way; revoke its keys and cancel them first", id, ErrInUse, running)}
	}
	if _, more, err = forgetSome(t, "tenant = $1", []any{id}); err != nil || more {
		return more, err
	}
	if more, err = forgetAgents(t, id); err != nil || more {
		return more, err
	}
	for _, table := range ofTenants {
		if _, err := t.exec(`DELETE FROM `+table+` WHERE tenant = $1`, id); err != nil {
			return false, err
		}
	}
	_, err = t.exec(`DELETE FROM tenants WHERE id = $1`, id)
	return false, err
}

// forgetAgents deletes agents of a tenant with all their versions, which may be large. It
// reports whether there are more.
func forgetAgents(t tx, tenant string) (more bool, err error) {
	began := time.Now()
	var names []string
	if err := t.query(func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	}, `SELECT name FROM agent_room WHERE tenant = $1`, tenant); err != nil {
		return false, err
	}
	for _, name := range names {
		for _, table := range []string{"agents", "agent_room"} {
			if _, err := t.exec(`DELETE FROM `+table+` WHERE tenant = $1 AND name = $2`, tenant, name); err != nil {
				return false, err
			}
		}
		if time.Since(began) > forgetTime {
			return true, nil
		}
	}
	return false, nil
}

// Block implements [Platform].
func (s *store) Block(ctx context.Context, digest, reason string) error {
	return s.update(urgent(ctx), false, func(t tx) error {
		_, err := t.exec(`INSERT INTO blocked_modules (digest, reason, created_ms) VALUES ($1, $2, NOW_MS)
			ON CONFLICT (digest) DO UPDATE SET reason = $2`, digest, reason)
		return err
	})
}

// Unblock implements [Platform]; it fails with [ErrNoModule] if the module is
// not blocked.
func (s *store) Unblock(ctx context.Context, digest string) error {
	return s.update(urgent(ctx), false, func(t tx) error {
		n, err := t.exec(`DELETE FROM blocked_modules WHERE digest = $1`, digest)
		if err == nil && n == 0 {
			err = ownError{fmt.Errorf("sha256:%s is not blocked: %w", digest, ErrNoModule)}
		}
		return err
	})
}

// Blocked implements [Platform].
func (s *store) Blocked(ctx context.Context) (out []Block, err error) {
	err = s.view(ctx, func(t tx) error {
		return t.query(func(scan func(...any) error) error {
			b, err := scanBlock(scan)
			out = append(out, b)
			return err
		}, `SELECT digest, reason, created_ms FROM blocked_modules ORDER BY digest`)
	})
	return out, err
}

func scanBlock(scan func(...any) error) (b Block, err error) {
	var created int64
	err = scan(&b.Digest, &b.Reason, &created)
	b.Created = time.UnixMilli(created)
	return b, err
}

// Blocks implements [Platform].
func (s *store) Blocks(ctx context.Context, p Page) (blocks []Block, next *Position, err error) {
	err = s.view(ctx, func(t tx) (err error) {
		blocks, next, err = list(t, p, scanBlock, func(b *Block) Position { return Position{Name: b.Digest} },
			`SELECT digest, reason, created_ms FROM blocked_modules WHERE digest > $1 ORDER BY digest LIMIT $2`, p.name())
		return err
	})
	return blocks, next, err
}

// Now implements [Platform].
func (s *store) Now(ctx context.Context) (at time.Time, err error) {
	var now int64
	err = s.view(ctx, func(t tx) error {
		_, err := one(t, `SELECT NOW_MS`, nil, &now)
		return err
	})
	return time.UnixMilli(now), err
}

// CutOff implements [Platform].
func (s *store) CutOff(ctx context.Context, spec []byte, limit, ofTenant int) (out []journal.RunInfo, err error) {
	err = s.view(ctx, func(t tx) error {
		return t.query(func(scan func(...any) error) error {
			info, err := scanRun(scan)
			if err == nil {
				out = append(out, *info)
			}
			return err
		}, `SELECT `+runColumns+` FROM (SELECT runs.*, row_number() OVER (PARTITION BY tenant ORDER BY lease_ms, id) AS nth FROM runs
			WHERE status = 'running' AND (tenant <> '' OR substr(spec, 1, $3) = $4) AND parent = '' AND lease_ms <= NOW_MS) AS cut
			WHERE nth <= $2 ORDER BY lease_ms LIMIT $1`, int64(limit), int64(ofTenant), int64(len(spec)), spec)
	})
	return out, err
}
