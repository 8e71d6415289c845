package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A Tenant gives access to the data of one tenant. Its statements go through a scoped transaction,
// which rejects statements that could access the rows of other tenants. The methods for runs check
// the tenant of the run instead.
type Tenant struct {
	s  *store
	id string
}

// ID returns the tenant's id.
func (n *Tenant) ID() string { return n.id }

// scoped wraps a transaction and passes the tenant as the first parameter of every statement. It
// rejects statements that do not use the parameter, since they could access the rows of other
// tenants.
type scoped struct {
	tx     database.Tx
	tenant string
}

// scopes are the forms in which a statement refers to its tenant.
var scopes = []string{"tenant = $1", "VALUES ($1,"}

func (t scoped) check(sql string) error {
	for _, form := range scopes {
		if strings.Contains(sql, form) {
			return nil
		}
	}
	return fmt.Errorf("the statement is not scoped to a tenant: %s", sql)
}

// Exec implements [database.Tx].
func (t scoped) Exec(sql string, args ...any) (int64, error) {
	if err := t.check(sql); err != nil {
		return 0, err
	}
	return t.tx.Exec(sql, append([]any{t.tenant}, args...)...)
}

// Query implements [database.Tx].
func (t scoped) Query(scan func(scan func(...any) error) error, sql string, args ...any) error {
	if err := t.check(sql); err != nil {
		return err
	}
	return t.tx.Query(scan, sql, append([]any{t.tenant}, args...)...)
}

// row executes a query and reads the row of its result into out. If there is no row, out stays
// unchanged.
func (t scoped) row(out []any, sql string, args ...any) error {
	_, err := database.One(t, sql, args, out...)
	return err
}

// view runs fn in a read-only transaction.
func (n *Tenant) view(ctx context.Context, fn func(scoped) error) error {
	return n.s.db.View(ctx, func(t database.Tx) error { return fn(scoped{t, n.id}) })
}

// update runs fn in a durable transaction; see [Tenant.transact].
func (n *Tenant) update(ctx context.Context, fn func(scoped) error) error {
	return n.transact(ctx, database.TxOptions{}, fn)
}

// transact runs fn in a transaction that locks the tenant's row, so that no other machine
// changes the tenant's counts until the transaction ends. It fails with [ErrNoTenant] if the
// tenant does not exist.
func (n *Tenant) transact(ctx context.Context, o database.TxOptions, fn func(scoped) error) error {
	return n.s.db.Update(ctx, o, func(t database.Tx) error {
		locked, err := t.Exec(`UPDATE tenants SET id = id WHERE id = $1`, n.id)
		if err != nil {
			return err
		}
		if locked == 0 {
			return database.ForCaller(fmt.Errorf("tenant %q: %w", n.id, ErrNoTenant))
		}
		return fn(scoped{t, n.id})
	})
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

const tenantColumns = `id, name, quota, policy, created_ms, updated_ms`

func scanTenant(scan func(...any) error) (*TenantInfo, error) {
	var info TenantInfo
	var quota, policy string
	var created, updated int64
	if err := scan(&info.ID, &info.Name, &quota, &policy, &created, &updated); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(quota), &info.Quota); err != nil {
		return nil, database.Corruptf("the quota of tenant %s: %w", info.ID, err)
	}
	info.Policy, info.Created, info.Updated = json.RawMessage(policy), time.UnixMilli(created), time.UnixMilli(updated)
	return &info, nil
}

func tenantIn(t database.Tx, id string) (info *TenantInfo, err error) {
	err = t.Query(func(scan func(...any) error) error {
		info, err = scanTenant(scan)
		return err
	}, `SELECT `+tenantColumns+` FROM tenants WHERE id = $1`, id)
	if err == nil && info == nil {
		err = database.ForCaller(fmt.Errorf("tenant %q: %w", id, ErrNoTenant))
	}
	return info, err
}

// Tenant implements [Platform].
func (s *store) Tenant(id string) *Tenant { return &Tenant{s: s, id: id} }

// CreateTenant implements [Platform].
func (s *store) CreateTenant(
	ctx context.Context,
	id, name string,
	q TenantQuota,
	policy json.RawMessage,
) (info *TenantInfo, err error) {
	quota, err := marshal(q)
	if err != nil {
		return nil, err
	}
	if len(policy) == 0 {
		policy = json.RawMessage("{}")
	}
	err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		n, err := t.Exec(
			`INSERT INTO tenants (`+tenantColumns+`) VALUES ($1, $2, $3, $4, NOW_MS, NOW_MS) ON CONFLICT (id) DO NOTHING`,
			id,
			name,
			quota,
			string(policy),
		)
		if err != nil {
			return err
		}
		if n == 0 {
			return database.ForCaller(fmt.Errorf("tenant %q: %w", id, ErrExists))
		}
		if info, err = tenantIn(t, id); err != nil {
			return err
		}
		return record(ctx, t, id, "tenant.create", id, change{After: tenantDetail(info)})
	})
	return info, err
}

// tenantDetail returns the details of a tenant for audit logs.
func tenantDetail(info *TenantInfo) map[string]any {
	return map[string]any{"name": info.Name, "quota": info.Quota, "policy": info.Policy}
}

// TenantInfo implements [Platform].
func (s *store) TenantInfo(ctx context.Context, id string) (info *TenantInfo, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		info, err = tenantIn(t, id)
		return err
	})
	return info, err
}

// Tenants implements [Platform].
func (s *store) Tenants(ctx context.Context, p Page) (tenants []TenantInfo, next *Position, err error) {
	err = s.db.View(ctx, func(t database.Tx) (err error) {
		tenants, next, err = list(t, p, func(scan func(...any) error) (i TenantInfo, err error) {
			info, err := scanTenant(scan)
			if err == nil {
				i = *info
			}
			return i, err
		}, func(i *TenantInfo) Position { return Position{Name: i.ID} },
			`SELECT `+tenantColumns+` FROM tenants WHERE id > $1 AND id <> ''
				AND ($2 = '' OR id LIKE lower($2) ESCAPE '\' OR lower(name) LIKE lower($2) ESCAPE '\')
				ORDER BY id LIMIT $3`, p.name(), p.namePattern())
		return err
	})
	return tenants, next, err
}

// UpdateTenant implements [Platform].
func (s *store) UpdateTenant(ctx context.Context, id string, u *TenantUpdate) (info *TenantInfo, err error) {
	err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		// This locks the row, so that no concurrent change is lost.
		if _, err := t.Exec(`UPDATE tenants SET updated_ms = NOW_MS WHERE id = $1`, id); err != nil {
			return err
		}
		if info, err = tenantIn(t, id); err != nil {
			return err
		}
		before := tenantDetail(info)
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
		_, err = t.Exec(`UPDATE tenants SET name = $2, quota = $3, policy = $4 WHERE id = $1`,
			id, info.Name, quota, string(info.Policy))
		if err != nil {
			return err
		}
		return record(ctx, t, id, "tenant.update", id, change{before, tenantDetail(info)})
	})
	return info, err
}

// tenantTables are the tables with rows of tenants, except those of runs.
var tenantTables = []string{
	"api_keys",
	"tenant_modules",
	"module_names",
	"threads",
	"thread_messages",
	"thread_metadata",
	"thread_retention",
	"agents",
	"agent_room",
	"agent_modules",
	"agent_aliases",
	"agent_alias_moves",
	"rollouts",
	"rollout_runs",
	"rollout_threads",
	"replays",
	"replay_runs",
	"tenant_gateways",
	"tenant_usage",
	"usage_days",
	"journal_room",
	"run_places",
	"run_series",
	"run_latencies",
	"secrets",
	"module_values",
	"module_usage",
	"members",
	"group_roles",
	"audit_log",
	"tokens",
	"origins",
}

// DeleteTenant implements [Platform].
func (s *store) DeleteTenant(ctx context.Context, id string) error {
	if id == Operator {
		return fmt.Errorf("delete tenant %q: %w: it is the operator's", id, ErrInUse)
	}
	if err := database.InBatches(ctx, func() (more bool, err error) {
		err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
			if more, err = deleteTenant(t, id); err != nil || more {
				return err
			}
			return recordOperator(t, ActorOf(ctx), "tenant.delete", id, nil)
		})
		return more, err
	}); err != nil {
		return err
	}
	return s.blobs.Sweep(ctx)
}

// deleteTenant deletes a batch of a tenant's runs or agents. If the tenant has neither, it deletes
// everything else. It reports whether the tenant still exists.
func deleteTenant(t database.Tx, id string) (more bool, err error) {
	// This locks the row, so that no run starts in the meantime.
	n, err := t.Exec(`UPDATE tenants SET id = id WHERE id = $1`, id)
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, database.ForCaller(fmt.Errorf("tenant %q: %w", id, ErrNoTenant))
	}
	var running int64
	if _, err := database.One(t, `SELECT count(*) FROM runs WHERE tenant = $1 AND status = 'running' AND lease_ms > NOW_MS`, []any{id}, &running); err != nil {
		return false, err
	}
	if running > 0 {
		return false, database.ForCaller(
			fmt.Errorf("tenant %q: %w: %d runs are in progress; revoke its keys and cancel them first", id, ErrInUse, running),
		)
	}
	if _, more, err = deleteRuns(t, "tenant = $1", []any{id}); err != nil || more {
		return more, err
	}
	if more, err = deleteAgents(t, id); err != nil || more {
		return more, err
	}
	for _, table := range tenantTables {
		if _, err := t.Exec(`DELETE FROM `+table+` WHERE tenant = $1`, id); err != nil {
			return false, err
		}
	}
	_, err = t.Exec(`DELETE FROM tenants WHERE id = $1`, id)
	return false, err
}

// deleteAgents deletes agents of a tenant with all their versions, which may be large, for about
// [database.BatchTime]. It reports whether there may be more.
func deleteAgents(t database.Tx, tenant string) (more bool, err error) {
	start := time.Now()
	names, err := database.Strings(t, `SELECT name FROM agent_room WHERE tenant = $1`, tenant)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		for _, table := range []string{"agents", "agent_room"} {
			if _, err := t.Exec(`DELETE FROM `+table+` WHERE tenant = $1 AND name = $2`, tenant, name); err != nil {
				return false, err
			}
		}
		if time.Since(start) > database.BatchTime {
			return true, nil
		}
	}
	return false, nil
}

// SetOrigins replaces the origins whose pages may use the tenant's tokens.
func (n *Tenant) SetOrigins(ctx context.Context, origins []string) error {
	return n.update(ctx, func(t scoped) error {
		before, err := originsIn(t)
		if err != nil {
			return err
		}
		after := slices.Compact(slices.Sorted(slices.Values(origins)))
		if slices.Equal(before, after) {
			return nil
		}
		if _, err := t.Exec(`DELETE FROM origins WHERE tenant = $1`); err != nil {
			return err
		}
		for _, o := range after {
			if _, err := t.Exec(`INSERT INTO origins (tenant, origin) VALUES ($1, $2)`, o); err != nil {
				return err
			}
		}
		return t.record(ctx, "cors.set", "", change{before, after})
	})
}

// Origins returns the origins whose pages may use the tenant's tokens, in order.
func (n *Tenant) Origins(ctx context.Context) (origins []string, err error) {
	err = n.view(ctx, func(t scoped) error {
		origins, err = originsIn(t)
		return err
	})
	return origins, err
}

func originsIn(t scoped) (origins []string, err error) {
	err = t.Query(func(scan func(...any) error) error {
		var o string
		err := scan(&o)
		origins = append(origins, o)
		return err
	}, `SELECT origin FROM origins WHERE tenant = $1 ORDER BY origin`)
	return origins, err
}

// HasOrigin reports whether exact or wildcard is one of the tenant's origins.
func (n *Tenant) HasOrigin(ctx context.Context, exact, wildcard string) (found bool, err error) {
	var count int64
	err = n.view(ctx, func(t scoped) error {
		return t.row([]any{&count}, `SELECT count(*) FROM origins WHERE tenant = $1 AND origin IN ($2, $3)`, exact, wildcard)
	})
	return count > 0, err
}

// HasOrigin implements [Platform].
func (s *store) HasOrigin(ctx context.Context, exact, wildcard string) (found bool, err error) {
	var count int64
	err = s.db.View(ctx, func(t database.Tx) error {
		_, err := database.One(t, `SELECT count(*) FROM (SELECT 1 FROM origins WHERE origin IN ($1, $2) LIMIT 1) AS found`,
			[]any{exact, wildcard}, &count)
		return err
	})
	return count > 0, err
}
