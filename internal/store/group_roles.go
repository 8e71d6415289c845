package store

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A GroupRole gives users of a group of the identity provider a role in a tenant.
type GroupRole struct {
	ID      string
	Group   string
	Tenant  string // [Operator] for a role of operators
	Role    string
	Created time.Time
}

// maxGroupRoles is the maximum number of group roles of all tenants.
const maxGroupRoles = 1000

const groupColumns = `id, name, tenant, role, created_ms`

func scanGroup(scan func(...any) error) (g GroupRole, err error) {
	var created int64
	err = scan(&g.ID, &g.Group, &g.Tenant, &g.Role, &created)
	g.Created = time.UnixMilli(created)
	return g, err
}

// MapGroup implements [Platform].
func (s *store) MapGroup(ctx context.Context, group, tenant, role string) (out *GroupRole, err error) {
	err = s.Tenant(tenant).update(ctx, func(t scoped) error {
		var others int64
		if _, err := database.One(t.tx, `SELECT count(*) FROM group_roles WHERE tenant <> $1 OR name <> $2`,
			[]any{tenant, group}, &others); err != nil {
			return err
		}
		if err := checkQuota("groups", maxGroupRoles, others, 1, 0); err != nil {
			return err
		}
		old, err := groupIn(t, group)
		if err != nil {
			return err
		}
		if _, err := t.Exec(`INSERT INTO group_roles (tenant, id, name, role, created_ms) VALUES ($1, $2, $3, $4, NOW_MS)
			ON CONFLICT (tenant, name) DO UPDATE SET role = $4`, randomText(8, keyIDLen), group, role); err != nil {
			return err
		}
		if out, err = groupIn(t, group); err != nil {
			return err
		}
		detail := change{After: map[string]string{"role": role}}
		if old != nil {
			detail.Before = map[string]string{"role": old.Role}
		}
		return t.record(ctx, "group.map", group, detail)
	})
	return out, err
}

func groupIn(t scoped, name string) (g *GroupRole, err error) {
	err = t.Query(func(scan func(...any) error) error {
		read, err := scanGroup(scan)
		g = &read
		return err
	}, `SELECT `+groupColumns+` FROM group_roles WHERE tenant = $1 AND name = $2`, name)
	return g, err
}

// GroupRoles implements [Platform].
func (s *store) GroupRoles(ctx context.Context, p Page) (groups []GroupRole, next *Position, err error) {
	err = s.db.View(ctx, func(t database.Tx) (err error) {
		groups, next, err = list(t, p, scanGroup, func(g *GroupRole) Position { return Position{Name: g.ID} },
			`SELECT `+groupColumns+` FROM group_roles WHERE id > $1 ORDER BY id LIMIT $2`, p.name())
		return err
	})
	return groups, next, err
}

// UnmapGroup implements [Platform].
func (s *store) UnmapGroup(ctx context.Context, id string) error {
	var g *GroupRole
	if err := s.db.View(ctx, func(t database.Tx) error {
		return t.Query(func(scan func(...any) error) error {
			read, err := scanGroup(scan)
			g = &read
			return err
		}, `SELECT `+groupColumns+` FROM group_roles WHERE id = $1`, id)
	}); err != nil {
		return err
	}
	missing := fmt.Errorf("group %s: %w", id, ErrNoMember)
	if g == nil {
		return missing
	}
	return s.Tenant(g.Tenant).update(ctx, func(t scoped) error {
		n, err := t.Exec(`DELETE FROM group_roles WHERE tenant = $1 AND id = $2`, id)
		if err == nil && n == 0 {
			return database.ForCaller(missing)
		}
		if err != nil {
			return err
		}
		return t.record(ctx, "group.unmap", g.Group, change{Before: map[string]string{"role": g.Role}})
	})
}
