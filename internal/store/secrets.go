package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
)

// A SecretInfo describes a secret without its value.
type SecretInfo struct {
	Name     string
	SealedBy string // name of the key in the keyring
	Updated  time.Time
}

// maxSecrets is the maximum number of secrets of a tenant.
const maxSecrets = 1000

// location returns the identity of a secret's row. The secret is sealed for it, and cannot be
// opened in another row. The separator is unambiguous, because names contain no zero bytes.
func (n *Tenant) location(name string) string { return n.id + "\x00" + name }

// SetSecret seals and stores a secret. It fails with [keyring.ErrNoKey] if the store has no
// keyring, and with a [*QuotaError] if the tenant's storage quota or the limit of 1,000 secrets
// is reached.
func (n *Tenant) SetSecret(ctx context.Context, name string, secret []byte) error {
	by, sealed, err := keyring.Seal(n.s.keyring, secret, n.location(name))
	if err != nil {
		return err
	}
	return n.update(ctx, func(t scoped) error {
		if err := checkCount(t, "secrets", maxSecrets, `SELECT count(*) FROM secrets WHERE tenant = $1 AND name <> $2`, name); err != nil {
			return err
		}
		info, err := tenantIn(t.tx, n.id)
		if err != nil {
			return err
		}
		if err := checkStorage(t, info.Quota, int64(len(sealed))); err != nil {
			return err
		}
		_, err = t.Exec(`INSERT INTO secrets (tenant, name, sealed_by, sealed, updated_ms) VALUES ($1, $2, $3, $4, NOW_MS)
			ON CONFLICT (tenant, name) DO UPDATE SET sealed_by = $3, sealed = $4, updated_ms = NOW_MS`, name, by, sealed)
		if err != nil {
			return err
		}
		return t.record(ctx, "secret.set", name, nil)
	})
}

// Secret returns the value of a secret. It fails with [ErrNoSecret] if the tenant has no such
// secret, and with [keyring.ErrNoKey] if the keyring cannot open the secret.
func (n *Tenant) Secret(ctx context.Context, name string) ([]byte, error) {
	var by string
	var sealed []byte
	err := n.view(ctx, func(t scoped) error {
		return t.Query(func(scan func(...any) error) error {
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
	return keyring.Open(n.s.keyring, by, sealed, n.location(name))
}

// MissingKeys implements [Platform].
func (s *store) MissingKeys(ctx context.Context) (names []string, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		return t.Query(func(scan func(...any) error) error {
			var tenant, name, by string
			var sealed []byte
			if err := scan(&tenant, &name, &by, &sealed); err != nil {
				return err
			}
			if _, err := keyring.Open(s.keyring, by, sealed, s.Tenant(tenant).location(name)); err != nil &&
				!slices.Contains(names, by) {
				names = append(names, by)
			}
			return nil
		}, `SELECT tenant, name, sealed_by, sealed FROM secrets
			JOIN (SELECT sealed_by AS key, min(updated_ms) AS oldest, max(updated_ms) AS newest
				FROM secrets GROUP BY sealed_by) AS keys
			ON sealed_by = key AND (updated_ms = oldest OR updated_ms = newest) ORDER BY sealed_by LIMIT 1000`)
	})
	return names, err
}

// Secrets returns a page of the tenant's secrets ordered by name, without their values, and the
// position of its last secret if more follow.
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

// DeleteSecret deletes a secret. It fails with [ErrNoSecret] if the tenant has no such secret.
func (n *Tenant) DeleteSecret(ctx context.Context, name string) error {
	return n.update(ctx, func(t scoped) error {
		deleted, err := t.Exec(`DELETE FROM secrets WHERE tenant = $1 AND name = $2`, name)
		if err == nil && deleted == 0 {
			err = database.ForCaller(fmt.Errorf("secret %s: %w", name, ErrNoSecret))
		}
		if err != nil {
			return err
		}
		return t.record(ctx, "secret.delete", name, nil)
	})
}
