package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A key's text is "ar_", an id of ten characters, "_", and a secret of 256 bits. Such a secret
// cannot be guessed, so a slow hash would add no protection.
const (
	keyPrefix      = "ar_"
	keyIDLen       = 10
	keySecretBytes = 32
	keyUseInterval = time.Minute // minimum time between two updates of a key's last use
)

var keyEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// A Key is an API key without its secret.
type Key struct {
	ID      string
	Tenant  string
	Name    string
	Scopes  []string
	Role    string // gives the key the scopes of the role; empty for a key with Scopes
	Created time.Time
	Expires time.Time // when the key expires; zero if it does not
	Revoked time.Time // when the key was revoked; zero if it was not
	Used    time.Time // when the key was last used, to the minute; zero if it never was
}

// KeyOptions describe a key to create.
type KeyOptions struct {
	Name   string
	Scopes []string
	Role   string        // replaces Scopes
	TTL    time.Duration // time until the key expires; 0 means never
}

// A KeyError reports that a key is unknown, revoked or expired.
type KeyError struct {
	// ID is the key's id if the caller knows its secret. Otherwise ID is empty, so that the
	// caller cannot find out which keys exist.
	ID string
	// Reason is shown to the caller.
	Reason string
}

// Error returns the reason.
func (e *KeyError) Error() string { return e.Reason }

var errUnknownKey = &KeyError{Reason: "unknown key"}

// randomText encodes the given number of random bytes in base32, and returns the first chars
// characters of the result.
func randomText(bytes, chars int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return keyEncoding.EncodeToString(b)[:chars]
}

const keyColumns = `id, tenant, name, scopes, role, created_ms, expires_ms, revoked_ms, used_ms`

func scanKey(scan func(...any) error, more ...any) (*Key, error) {
	var k Key
	var scopes string
	var created, expires, revoked, used int64
	columns := []any{&k.ID, &k.Tenant, &k.Name, &scopes, &k.Role, &created, &expires, &revoked, &used}
	if err := scan(append(columns, more...)...); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(scopes), &k.Scopes); err != nil {
		return nil, database.Corruptf("the scopes of key %s: %w", k.ID, err)
	}
	k.Created, k.Expires, k.Revoked, k.Used = time.UnixMilli(created), timeOrZero(expires), timeOrZero(
		revoked,
	), timeOrZero(used)
	return &k, nil
}

// timeOrZero returns the time of a column in milliseconds since 1970, or the zero time if ms is 0.
func timeOrZero(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// CreateKey creates a key and returns its text, which is not stored. It fails with a
// [*QuotaError] if the tenant has 1,000 valid keys.
func (n *Tenant) CreateKey(ctx context.Context, o *KeyOptions) (k *Key, text string, err error) {
	err = n.update(ctx, func(t scoped) error {
		if k, text, err = createKey(t, o); err != nil {
			return err
		}
		return t.record(ctx, "key.create", k.ID, change{After: keyDetail(k)})
	})
	return k, text, err
}

// keyDetail returns the details of a key for audit logs.
func keyDetail(k *Key) map[string]any {
	d := map[string]any{"name": k.Name, "scopes": k.Scopes}
	if k.Role != "" {
		d = map[string]any{"name": k.Name, "role": k.Role}
	}
	if !k.Expires.IsZero() {
		d["expires"] = k.Expires.UTC()
	}
	return d
}

// CreateFirstKey creates a key and returns its text if the tenant has no valid key. If the tenant
// has a valid key, CreateFirstKey creates none and returns an empty string. If several servers
// start at once, only one of them creates a key.
func (n *Tenant) CreateFirstKey(ctx context.Context, o *KeyOptions) (text string, err error) {
	err = n.update(ctx, func(t scoped) error {
		var valid int64
		if err := t.row([]any{&valid},
			`SELECT count(*) FROM api_keys WHERE tenant = $1 AND revoked_ms = 0 AND (expires_ms = 0 OR expires_ms > NOW_MS)`); err != nil || valid > 0 {
			return err
		}
		k, created, err := createKey(t, o)
		if err != nil {
			return err
		}
		text = created
		return t.record(ctx, "key.create", k.ID, change{After: keyDetail(k)})
	})
	return text, err
}

// Limits on a tenant's keys.
const (
	maxKeys    = 1000 // valid keys
	maxOldKeys = 1000 // revoked and expired keys; the oldest are deleted
)

const oldKey = `(revoked_ms > 0 OR expires_ms > 0 AND expires_ms <= NOW_MS)`

// createKey creates a key, within the limit of maxKeys. It deletes the oldest of the revoked and
// expired keys if there are more than maxOldKeys.
func createKey(t scoped, o *KeyOptions) (*Key, string, error) {
	if err := checkCount(t, "keys", maxKeys, `SELECT count(*) FROM api_keys WHERE tenant = $1 AND NOT `+oldKey); err != nil {
		return nil, "", err
	}
	newest := fmt.Sprintf(`ORDER BY created_ms DESC LIMIT %d`, maxOldKeys)
	if _, err := t.Exec(`DELETE FROM api_keys WHERE tenant = $1 AND ` + oldKey + ` AND id NOT IN
		(SELECT id FROM api_keys WHERE tenant = $1 AND ` + oldKey + ` ` + newest + `)`); err != nil {
		return nil, "", err
	}
	id, secret := randomText(8, keyIDLen), randomText(keySecretBytes, keyEncoding.EncodedLen(keySecretBytes))
	hash := sha256.Sum256([]byte(secret))
	scopes, err := marshal(o.Scopes)
	if err != nil {
		return nil, "", err
	}
	_, err = t.Exec(
		`INSERT INTO api_keys (tenant, id, name, hash, scopes, role, created_ms, expires_ms, revoked_ms, used_ms)
		VALUES ($1, $2, $3, $4, $5, $6, NOW_MS, CASE WHEN CAST($7 AS BIGINT) > 0 THEN NOW_MS + $7 ELSE 0 END, 0, 0)`,
		id,
		o.Name,
		hash[:],
		scopes,
		o.Role,
		o.TTL.Milliseconds(),
	)
	if err != nil {
		return nil, "", err
	}
	k, err := keyIn(t, id)
	return k, keyPrefix + id + "_" + secret, err
}

func keyIn(t scoped, id string) (k *Key, err error) {
	err = t.Query(func(scan func(...any) error) error {
		k, err = scanKey(scan)
		return err
	}, `SELECT `+keyColumns+` FROM api_keys WHERE tenant = $1 AND id = $2`, id)
	if err == nil && k == nil {
		err = database.ForCaller(fmt.Errorf("key %s: %w", id, ErrNoKey))
	}
	return k, err
}

// Keys returns a page of the tenant's keys, the newest first, including revoked ones, and
// the position of its last key if more follow.
func (n *Tenant) Keys(ctx context.Context, p Page) (keys []Key, next *Position, err error) {
	created, id := p.older()
	err = n.view(ctx, func(t scoped) (err error) {
		keys, next, err = list(t, p, func(scan func(...any) error) (k Key, err error) {
			read, err := scanKey(scan)
			if err == nil {
				k = *read
			}
			return k, err
		}, func(k *Key) Position { return Position{k.Created, k.ID} }, `SELECT `+keyColumns+` FROM api_keys
			WHERE tenant = $1 AND (created_ms, id) < ($2, $3) AND ($4 = '' OR lower(name) LIKE lower($4) ESCAPE '\')
			ORDER BY created_ms DESC, id DESC LIMIT $5`, created, id, p.namePattern())
		return err
	})
	return keys, next, err
}

// Key returns one of the tenant's keys. It fails with [ErrNoKey] if the tenant has no such key.
func (n *Tenant) Key(ctx context.Context, id string) (k *Key, err error) {
	err = n.view(ctx, func(t scoped) error {
		k, err = keyIn(t, id)
		return err
	})
	return k, err
}

// RevokeKey revokes a key at once. Revoking it again has no effect. RevokeKey fails with
// [ErrNoKey] if the tenant has no such key.
func (n *Tenant) RevokeKey(ctx context.Context, id string) error {
	return n.update(ctx, func(t scoped) error {
		if _, err := keyIn(t, id); err != nil {
			return err
		}
		n, err := t.Exec(`UPDATE api_keys SET revoked_ms = NOW_MS WHERE tenant = $1 AND id = $2 AND revoked_ms = 0`, id)
		if err != nil || n == 0 {
			return err
		}
		return t.record(ctx, "key.revoke", id, nil)
	})
}

// RevokeKeys revokes all keys of the tenant at once.
func (n *Tenant) RevokeKeys(ctx context.Context) error {
	return n.update(ctx, func(t scoped) error {
		n, err := t.Exec(`UPDATE api_keys SET revoked_ms = NOW_MS WHERE tenant = $1 AND revoked_ms = 0`)
		if err != nil || n == 0 {
			return err
		}
		return t.record(ctx, "key.revoke", "all", map[string]int64{"keys": n})
	})
}

// RotateKey replaces a key with a new one of the same name, scopes, role and time to live. The old key
// expires after grace, unless it expires earlier. RotateKey fails with [ErrNoKey] if the tenant has
// no such key or the key is revoked, and with a [*QuotaError] if the tenant has 1,000 valid keys,
// including the old key unless grace is 0.
func (n *Tenant) RotateKey(ctx context.Context, id string, grace time.Duration) (k *Key, text string, err error) {
	err = n.update(ctx, func(t scoped) error {
		old, err := keyIn(t, id)
		if err != nil {
			return err
		}
		if !old.Revoked.IsZero() {
			return database.ForCaller(fmt.Errorf("key %s: %w: it is revoked; create a new one", id, ErrNoKey))
		}
		o := &KeyOptions{Name: old.Name, Scopes: old.Scopes, Role: old.Role}
		if !old.Expires.IsZero() {
			o.TTL = old.Expires.Sub(old.Created)
		}
		if _, err := t.Exec(`UPDATE api_keys SET expires_ms = NOW_MS + $3 WHERE tenant = $1 AND id = $2 AND (expires_ms = 0 OR expires_ms > NOW_MS + $3)`,
			id, grace.Milliseconds()); err != nil {
			return err
		}
		if k, text, err = createKey(t, o); err != nil {
			return err
		}
		return t.record(ctx, "key.rotate", id, change{After: map[string]string{"id": k.ID, "grace": grace.String()}})
	})
	return k, text, err
}

// Authenticate implements [Platform]. The time that it takes to reject an unknown key reveals only
// whether the key's id exists. Ids are public.
func (s *store) Authenticate(ctx context.Context, text string) (*Key, *TenantInfo, error) {
	id, secret, ok := strings.Cut(strings.TrimPrefix(text, keyPrefix), "_")
	if !ok || !strings.HasPrefix(text, keyPrefix) || len(id) != keyIDLen ||
		len(secret) != keyEncoding.EncodedLen(keySecretBytes) {
		return nil, nil, errUnknownKey
	}
	given := sha256.Sum256([]byte(secret))
	var k *Key
	var info *TenantInfo
	var hash []byte
	var now int64
	err := s.db.View(ctx, func(t database.Tx) error {
		err := t.Query(func(scan func(...any) error) (err error) {
			k, err = scanKey(scan, &hash, &now)
			hash = bytes.Clone(hash)
			return err
		}, `SELECT `+keyColumns+`, hash, NOW_MS FROM api_keys WHERE id = $1`, id)
		if err == nil && k != nil {
			info, err = tenantIn(t, k.Tenant) // deleting a tenant deletes its keys
		}
		return err
	})
	switch {
	case err != nil:
		return nil, nil, err
	case k == nil || subtle.ConstantTimeCompare(hash, given[:]) != 1:
		return nil, nil, errUnknownKey
	case !k.Revoked.IsZero():
		return nil, nil, &KeyError{k.ID, fmt.Sprintf("key %s was revoked at %s", k.ID, k.Revoked.UTC().Format(time.RFC3339))}
	case !k.Expires.IsZero() && k.Expires.UnixMilli() <= now:
		return nil, nil, &KeyError{k.ID, fmt.Sprintf("key %s expired at %s", k.ID, k.Expires.UTC().Format(time.RFC3339))}
	}
	if now-k.Used.UnixMilli() > keyUseInterval.Milliseconds() {
		err = s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
			_, err := t.Exec(`UPDATE api_keys SET used_ms = NOW_MS WHERE id = $1`, id)
			return err
		})
	}
	return k, info, err
}
