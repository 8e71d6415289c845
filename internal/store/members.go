package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// ErrNoMember is the error of a member or a group that does not exist.
var ErrNoMember = errors.New("no such member")

// A Member is a person with a role in a tenant.
type Member struct {
	ID     string
	Tenant string
	Email  string // in lower case; empty for a member who was added by subject
	// Issuer and Subject identify the person at the identity provider. They are empty until a
	// member who was invited by e-mail signs in.
	Issuer, Subject string
	Name            string
	Role            string
	Created         time.Time
	Joined          time.Time // time of the first sign-in; zero before it
}

// maxMembers is the maximum number of members of a tenant.
const maxMembers = 1000

const memberColumns = `id, tenant, email, issuer, subject, name, role, created_ms, joined_ms`

func scanMember(scan func(...any) error) (m Member, err error) {
	var created, joined int64
	err = scan(&m.ID, &m.Tenant, &m.Email, &m.Issuer, &m.Subject, &m.Name, &m.Role, &created, &joined)
	m.Created, m.Joined = time.UnixMilli(created), timeOrZero(joined)
	return m, err
}

// AddMember adds a member with the email, or the issuer and subject, name and role of m. It fails
// with [ErrExists] if the tenant has a member with the same e-mail address or subject, and with a
// [*QuotaError] if the tenant has 1,000 members.
func (n *Tenant) AddMember(ctx context.Context, m *Member) (added *Member, err error) {
	err = n.update(ctx, func(t scoped) error {
		if err := checkCount(t, "members", maxMembers, `SELECT count(*) FROM members WHERE tenant = $1`); err != nil {
			return err
		}
		id := randomText(8, keyIDLen)
		rows, err := t.Exec(`INSERT INTO members (tenant, id, email, issuer, subject, name, role, created_ms, joined_ms)
			VALUES ($1, $2, $3, $4, $5, $6, $7, NOW_MS, 0) ON CONFLICT DO NOTHING`, id, m.Email, m.Issuer, m.Subject, m.Name, m.Role)
		if err != nil {
			return err
		}
		if rows == 0 {
			return database.ForCaller(fmt.Errorf("member %s%s: %w", m.Email, m.Subject, ErrExists))
		}
		if added, err = memberIn(t, id); err != nil {
			return err
		}
		return t.record(ctx, "member.add", id, change{After: memberDetail(added)})
	})
	return added, err
}

// memberDetail returns the details of a member for audit logs.
func memberDetail(m *Member) map[string]string {
	d := map[string]string{"role": m.Role}
	if m.Email != "" {
		d["email"] = m.Email
	}
	if m.Subject != "" {
		d["subject"] = m.Subject
	}
	return d
}

func memberIn(t scoped, id string) (m *Member, err error) {
	err = t.Query(func(scan func(...any) error) error {
		read, err := scanMember(scan)
		m = &read
		return err
	}, `SELECT `+memberColumns+` FROM members WHERE tenant = $1 AND id = $2`, id)
	if err == nil && m == nil {
		err = database.ForCaller(fmt.Errorf("member %s: %w", id, ErrNoMember))
	}
	return m, err
}

// Members returns a page of the tenant's members ordered by id, and the position of its last
// member if more follow.
func (n *Tenant) Members(ctx context.Context, p Page) (members []Member, next *Position, err error) {
	err = n.view(ctx, func(t scoped) (err error) {
		members, next, err = list(t, p, scanMember, func(m *Member) Position { return Position{Name: m.ID} },
			`SELECT `+memberColumns+` FROM members WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3`, p.name())
		return err
	})
	return members, next, err
}

// SetMemberRole changes the role of a member. It fails with [ErrNoMember] if the tenant has no such member, and with
// [ErrInUse] if the last member with the role last would lose that role. An empty last is no role.
func (n *Tenant) SetMemberRole(ctx context.Context, id, role, last string) (m *Member, err error) {
	err = n.update(ctx, func(t scoped) error {
		old, err := memberIn(t, id)
		if err != nil {
			return err
		}
		if role != last {
			if err := checkLast(t, old, last); err != nil {
				return err
			}
		}
		if _, err := t.Exec(`UPDATE members SET role = $3 WHERE tenant = $1 AND id = $2`, id, role); err != nil {
			return err
		}
		if m, err = memberIn(t, id); err != nil {
			return err
		}
		return t.record(ctx, "member.update", id, change{memberDetail(old), memberDetail(m)})
	})
	return m, err
}

// RemoveMember removes a member. It fails as [Tenant.SetMemberRole] does.
func (n *Tenant) RemoveMember(ctx context.Context, id, last string) error {
	return n.update(ctx, func(t scoped) error {
		old, err := memberIn(t, id)
		if err != nil {
			return err
		}
		if err := checkLast(t, old, last); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM members WHERE tenant = $1 AND id = $2`, id); err != nil {
			return err
		}
		return t.record(ctx, "member.remove", id, change{Before: memberDetail(old)})
	})
}

// checkLast fails with [ErrInUse] if m is the tenant's last member with a role. If m has signed in,
// members who have not signed in do not count.
func checkLast(t scoped, m *Member, role string) error {
	if role == "" || m.Role != role {
		return nil
	}
	var others int64
	if err := t.row([]any{&others}, `SELECT count(*) FROM members WHERE tenant = $1 AND role = $2 AND id <> $3 AND
		(joined_ms > 0 OR CAST($4 AS BIGINT) = 0)`, role, m.ID, joinedMS(m)); err != nil || others > 0 {
		return err
	}
	return database.ForCaller(fmt.Errorf("member %s: %w: it is the last %s; give another member the role first",
		m.ID, ErrInUse, role))
}

func joinedMS(m *Member) int64 {
	if m.Joined.IsZero() {
		return 0
	}
	return m.Joined.UnixMilli()
}

// Member returns one of the tenant's members. It fails with [ErrNoMember] if the tenant has no such
// member.
func (n *Tenant) Member(ctx context.Context, id string) (m *Member, err error) {
	err = n.view(ctx, func(t scoped) error {
		m, err = memberIn(t, id)
		return err
	})
	return m, err
}

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
