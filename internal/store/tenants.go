package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

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
