package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

// A SecretInfo is what is told of a secret.
type SecretInfo struct {
	Name     string
	SealedBy string // the key of the keyring
	Updated  time.Time
}

// maxSecrets is how many secrets a tenant has at most.
const maxSecrets = 1000

// place binds a sealed secret to its row: moved to another one it does not
// open. No name has a zero byte.
func (n *Tenant) place(name string) string { return n.id + "\x00" + name }

// SetSecret keeps a secret, sealed. Without a keyring it fails with
// [ErrNoKeyring].
func (n *Tenant) SetSecret(ctx context.Context, name string, secret []byte) error {
	by, sealed, err := n.s.keyring.seal(secret, n.place(name))
	if err != nil {
		return err
	}
	return n.update(ctx, func(t scoped) error {
		if err := fewer(t, "secrets", maxSecrets, `SELECT count(*) FROM secrets WHERE tenant = $1 AND name <> $2`, name); err != nil {
			return err
		}
		info, err := tenantIn(t.tx, n.id)
		if err != nil {
			return err
		}
		if err := roomForBytes(t, info.Quota, int64(len(sealed))); err != nil {
			return err
		}
		_, err = t.exec(`INSERT INTO secrets (tenant, name, sealed_by, sealed, updated_ms) VALUES ($1, $2, $3, $4, NOW_MS)
			ON CONFLICT (tenant, name) DO UPDATE SET sealed_by = $3, sealed = $4, updated_ms = NOW_MS`, name, by, sealed)
		return err
	})
}

// Secret opens one, or fails with [ErrNoSecret].
func (n *Tenant) Secret(ctx context.Context, name string) ([]byte, error) {
	var by string
	var sealed []byte
	err := n.view(ctx, func(t scoped) error {
		return t.query(func(scan func(...any) error) error {
			err := scan(&by, &sealed)
			sealed = bytes.Clone(sealed)
			return err
		}, `SELECT sealed_by, sealed FROM secrets WHERE tenant = $1 AND name = $2`, name)
	})
	if err != nil {
		return nil, err
	}
	if by == "" {
		return nil, fmt.Errorf("secret %s: %w", name, ErrNoSecret)
	}
	return n.s.keyring.open(by, sealed, n.place(name))
}

// LostKeys implements [Platform].
func (s *store) LostKeys(ctx context.Context) (names []string, err error) {
	err = s.view(ctx, func(t tx) error {
		return t.query(func(scan func(...any) error) error {
			var tenant, name, by string
			var sealed []byte
			if err := scan(&tenant, &name, &by, &sealed); err != nil {
				return err
			}
			if _, err := s.keyring.open(by, sealed, s.Tenant(tenant).place(name)); err != nil && !slices.Contains(names, by) {
				names = append(names, by)
			}
			return nil
		}, `SELECT tenant, name, sealed_by, sealed FROM secrets
			JOIN (SELECT sealed_by AS key, min(updated_ms) AS oldest, max(updated_ms) AS newest FROM secrets GROUP BY sealed_by) AS keys
			ON sealed_by = key AND (updated_ms = oldest OR updated_ms = newest) ORDER BY sealed_by LIMIT 1000`)
	})
	return names, err
}

// Secrets returns a page of the tenant's secrets in the order of their names, without
// their values, and the position of its last secret if more follow.
func (n *Tenant) Secrets(ctx context.Context, p Page) (secrets []SecretInfo, next *Position, err error) {
	err = n.view(ctx, func(t scoped) (err error) {
		secrets, next, err = secretsIn(t, p)
		return err
	})
	return secrets, next, err
}

func secretsIn(t scoped, p Page) ([]SecretInfo, *Position, error) {
	return list(t, p, func(scan func(...any) error) (i SecretInfo, err error) {
		var updated int64
		err = scan(&i.Name, &i.SealedBy, &updated)
		i.Updated = time.UnixMilli(updated)
		return i, err
	}, func(i *SecretInfo) Position { return Position{Name: i.Name} },
		`SELECT name, sealed_by, updated_ms FROM secrets WHERE tenant = $1 AND name > $2 ORDER BY name LIMIT $3`, p.name())
}

// DeleteSecret forgets one, or fails with [ErrNoSecret].
func (n *Tenant) DeleteSecret(ctx context.Context, name string) error {
	return n.update(ctx, func(t scoped) error {
		gone, err := t.exec(`DELETE FROM secrets WHERE tenant = $1 AND name = $2`, name)
		if err == nil && gone == 0 {
			err = ownError{fmt.Errorf("secret %s: %w", name, ErrNoSecret)}
		}
		return err
	})
}
