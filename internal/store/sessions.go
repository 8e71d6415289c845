package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A session's token is "ars_" and a secret of 256 bits.
const sessionPrefix = "ars_"

// Limits on sessions.
const (
	maxSessions   = 50  // of one person; the oldest are deleted
	maxGroups     = 100 // groups of one person that have roles
	expiredAtOnce = 100 // expired rows that one sign-in deletes
)

// ErrNoSession is the error of a session that does not exist or has expired.
var ErrNoSession = errors.New("no such session")

// A Person is a user as the identity provider describes the user.
type Person struct {
	Issuer, Subject string
	Email           string // in lower case; empty unless the provider verified it
	Name            string
	Groups          []string
}

// A TenantRole is a role of a person in a tenant.
type TenantRole struct {
	Tenant string
	Role   string
	Since  time.Time
}

// A NewSession describes a session to create.
type NewSession struct {
	Person
	State []byte        // the hash of the state of the sign-in, which is used once; nil if there is none
	TTL   time.Duration // time until the session expires
}

// SignIn implements [Platform].
func (s *store) SignIn(ctx context.Context, in *NewSession) (token string, roles []TenantRole, err error) {
	secret := randomText(keySecretBytes, keyEncoding.EncodedLen(keySecretBytes))
	hash := sha256.Sum256([]byte(secret))
	err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		if in.State != nil {
			n, err := t.Exec(
				`INSERT INTO used_states (hash, expires_ms) VALUES ($1, NOW_MS + 3600000) ON CONFLICT (hash) DO NOTHING`,
				in.State,
			)
			if err != nil {
				return err
			}
			if n == 0 {
				return database.ForCaller(fmt.Errorf("sign-in: %w", ErrExists))
			}
		}
		p := in.Person
		if err := join(t, &p); err != nil {
			return err
		}
		if roles, err = rolesOf(t, &p); err != nil {
			return err
		}
		if len(roles) == 0 {
			return database.ForCaller(ErrNoMember)
		}
		if err := trimSessions(t, &p); err != nil {
			return err
		}
		groups, err := marshal(p.Groups)
		if err != nil {
			return err
		}
		if _, err := t.Exec(`INSERT INTO sessions (hash, issuer, subject, email, name, groups_json, created_ms, expires_ms, used_ms)
			VALUES ($1, $2, $3, $4, $5, $6, NOW_MS, NOW_MS + $7, NOW_MS)`,
			hash[:], p.Issuer, p.Subject, p.Email, p.Name, groups, in.TTL.Milliseconds()); err != nil {
			return err
		}
		return recordSignIn(ctx, t, &p, roles)
	})
	if err != nil {
		return "", nil, err
	}
	return sessionPrefix + secret, roles, nil
}

// recordSignIn records a sign-in in the logs of the person's tenants, and then in the operator's.
func recordSignIn(ctx context.Context, t database.Tx, p *Person, roles []TenantRole) error {
	a := *ActorOf(ctx)
	a.ID, a.Name = "user:"+p.Subject, p.Email
	tenants := make([]string, 0, len(roles))
	for _, r := range roles {
		if r.Tenant != Operator {
			tenants = append(tenants, r.Tenant)
		}
	}
	slices.Sort(tenants)
	for _, tenant := range slices.Compact(tenants) {
		if _, err := t.Exec(`UPDATE tenants SET id = id WHERE id = $1`, tenant); err != nil {
			return err
		}
		if err := addRecord(t, tenant, &a, "user.sign-in", a.ID, nil); err != nil {
			return err
		}
	}
	return recordOperator(t, &a, "user.sign-in", a.ID, nil)
}

// join binds invitations of the person's e-mail address to the person's subject, and records the first sign-in of
// members who were added by subject. It also calls keepGroups.
func join(t database.Tx, p *Person) error {
	if p.Email != "" {
		// The tenant may already have a member with the person's subject.
		if _, err := t.Exec(`UPDATE members SET issuer = $2, subject = $3, joined_ms = NOW_MS
			WHERE email = $1 AND subject = '' AND NOT EXISTS
				(SELECT 1 FROM members m WHERE m.tenant = members.tenant AND m.issuer = $2 AND m.subject = $3)`,
			p.Email, p.Issuer, p.Subject); err != nil {
			return err
		}
	}
	if _, err := t.Exec(`UPDATE members SET joined_ms = NOW_MS WHERE issuer = $1 AND subject = $2 AND joined_ms = 0`,
		p.Issuer, p.Subject); err != nil {
		return err
	}
	return keepGroups(t, p)
}

// keepGroups removes groups without a role from the person, and all but maxGroups of the others.
func keepGroups(t database.Tx, p *Person) error {
	if len(p.Groups) == 0 {
		return nil
	}
	known, err := database.Strings(t, `SELECT DISTINCT name FROM group_roles ORDER BY name`)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, g := range p.Groups {
		has[g] = true
	}
	known = slices.DeleteFunc(known, func(g string) bool { return !has[g] })
	p.Groups = known[:min(len(known), maxGroups)]
	return nil
}

// rolesOf returns the roles of a person as a member and by the groups, the oldest first.
func rolesOf(t database.Tx, p *Person) (roles []TenantRole, err error) {
	scan := func(scan func(...any) error) error {
		var r TenantRole
		var since int64
		err := scan(&r.Tenant, &r.Role, &since)
		r.Since = time.UnixMilli(since)
		roles = append(roles, r)
		return err
	}
	if err := t.Query(scan, `SELECT tenant, role, created_ms FROM members WHERE issuer = $1 AND subject = $2 AND subject <> ''
		ORDER BY created_ms, tenant LIMIT 1000`, p.Issuer, p.Subject); err != nil {
		return nil, err
	}
	if len(p.Groups) > 0 {
		args := make([]any, len(p.Groups))
		places := make([]string, len(p.Groups))
		for i, g := range p.Groups {
			args[i], places[i] = g, fmt.Sprintf("$%d", i+1)
		}
		if err := t.Query(scan, `SELECT tenant, role, created_ms FROM group_roles WHERE name IN (`+
			strings.Join(places, ", ")+`) ORDER BY created_ms, tenant, id`, args...); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(roles, func(a, b TenantRole) int { return a.Since.Compare(b.Since) })
	return roles, nil
}

// trimSessions deletes expired rows, and the person's oldest sessions beyond the limit.
func trimSessions(t database.Tx, p *Person) error {
	for _, table := range []string{"sessions", "used_states"} {
		if _, err := t.Exec(`DELETE FROM `+table+` WHERE hash IN
			(SELECT hash FROM `+table+` WHERE expires_ms <= NOW_MS LIMIT $1)`, int64(expiredAtOnce)); err != nil {
			return err
		}
	}
	_, err := t.Exec(`DELETE FROM sessions WHERE issuer = $1 AND subject = $2 AND hash NOT IN
		(SELECT hash FROM sessions WHERE issuer = $1 AND subject = $2 ORDER BY created_ms DESC LIMIT $3)`,
		p.Issuer, p.Subject, int64(maxSessions-1))
	return err
}

// hashSession returns the hash of a session's token. ok is false if the text is no token.
func hashSession(token string) (hash []byte, ok bool) {
	secret, ok := strings.CutPrefix(token, sessionPrefix)
	if !ok || len(secret) != keyEncoding.EncodedLen(keySecretBytes) {
		return nil, false
	}
	sum := sha256.Sum256([]byte(secret))
	return sum[:], true
}

// Session implements [Platform].
func (s *store) Session(ctx context.Context, token string, idle time.Duration) (*Person, []TenantRole, error) {
	hash, ok := hashSession(token)
	if !ok {
		return nil, nil, ErrNoSession
	}
	var p Person
	var groups string
	var now, expires, used int64
	var roles []TenantRole
	err := s.db.View(ctx, func(t database.Tx) error {
		found, err := database.One(t, `SELECT issuer, subject, email, name, groups_json, expires_ms, used_ms, NOW_MS
			FROM sessions WHERE hash = $1`, []any{hash}, &p.Issuer, &p.Subject, &p.Email, &p.Name, &groups, &expires, &used, &now)
		if err != nil {
			return err
		}
		if !found || expires <= now || now-used > idle.Milliseconds() {
			return database.ForCaller(ErrNoSession)
		}
		if err := json.Unmarshal([]byte(groups), &p.Groups); err != nil {
			return database.Corruptf("the groups of a session: %w", err)
		}
		roles, err = rolesOf(t, &p)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if now-used > keyUseInterval.Milliseconds() {
		err = s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
			_, err := t.Exec(`UPDATE sessions SET used_ms = NOW_MS WHERE hash = $1`, hash)
			return err
		})
	}
	return &p, roles, err
}

// SignOut implements [Platform].
func (s *store) SignOut(ctx context.Context, token string, everywhere bool) error {
	hash, ok := hashSession(token)
	if !ok {
		return ErrNoSession
	}
	return s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		sql := `DELETE FROM sessions WHERE hash = $1`
		if everywhere {
			sql = `DELETE FROM sessions WHERE (issuer, subject) IN (SELECT issuer, subject FROM sessions WHERE hash = $1)`
		}
		n, err := t.Exec(sql, hash)
		if err != nil || n == 0 {
			return err
		}
		a := ActorOf(ctx)
		return recordOperator(t, a, "user.sign-out", a.ID, map[string]int64{"sessions": n})
	})
}

// Roles implements [Platform].
func (s *store) Roles(ctx context.Context, p *Person) (roles []TenantRole, err error) {
	var invited int64
	person := *p
	err = s.db.View(ctx, func(t database.Tx) error {
		if _, err := database.One(t, `SELECT count(*) FROM members WHERE email = $1 AND email <> '' AND subject = ''`,
			[]any{p.Email}, &invited); err != nil {
			return err
		}
		if err := keepGroups(t, &person); err != nil {
			return err
		}
		roles, err = rolesOf(t, &person)
		return err
	})
	if err != nil || invited == 0 {
		return roles, err
	}
	err = s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
		person := *p
		if err := join(t, &person); err != nil {
			return err
		}
		roles, err = rolesOf(t, &person)
		return err
	})
	return roles, err
}
