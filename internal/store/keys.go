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
)

// How keys look: ar_, ten characters that name the key, _, and a secret of 256
// bits. Hashing such a secret slowly would protect nothing more: nobody
// guesses it.
const (
	keyPrefix   = "ar_"
	keyIDLen    = 10
	keySecret   = 32 // bytes
	keyUseEvery = time.Minute
)

var keyText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// A Key is one of the API, without its secret.
type Key struct {
	ID      string
	Tenant  string
	Name    string
	Scopes  []string
	Created time.Time
	Expires time.Time // zero: never
	Revoked time.Time // zero: it is not
	Used    time.Time // zero: never; to a minute
}

// A NewKey says what a key is for.
type NewKey struct {
	Name   string
	Scopes []string
	Life   time.Duration // 0: for ever
}

// A KeyError is why a key opens nothing.
type KeyError struct {
	// ID names the key where its holder has the secret; empty where the key is not
	// known, which is all that anybody else learns.
	ID string
	// Why is a text for the holder.
	Why string
}

// Error says why.
func (e *KeyError) Error() string { return e.Why }

var errUnknownKey = &KeyError{Why: "the key is not known here"}

func newSecret(bytes, chars int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // it never fails
	return keyText.EncodeToString(b)[:chars]
}

const keyColumns = `id, tenant, name, scopes, created_ms, expires_ms, revoked_ms, used_ms`

func scanKey(scan func(...any) error, more ...any) (*Key, error) {
	var k Key
	var scopes string
	var created, expires, revoked, used int64
	if err := scan(append([]any{&k.ID, &k.Tenant, &k.Name, &scopes, &created, &expires, &revoked, &used}, more...)...); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(scopes), &k.Scopes); err != nil {
		return nil, ownError{&Error{Corrupt, "", fmt.Errorf("the scopes of key %s: %w", k.ID, err)}}
	}
	k.Created, k.Expires, k.Revoked, k.Used = time.UnixMilli(created), moment(expires), moment(revoked), moment(used)
	return &k, nil
}

// moment is a time, zero for none.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// CreateKey makes a key, and shows it for the only time.
func (n *Tenant) CreateKey(ctx context.Context, o *NewKey) (k *Key, shown string, err error) {
	err = n.update(ctx, func(t scoped) error {
		k, shown, err = createKey(t, o)
		return err
	})
	return k, shown, err
}

// FirstKey makes a key if the tenant has none that works; shown is empty if it
// has one. Of servers that start at once, one makes it.
func (n *Tenant) FirstKey(ctx context.Context, o *NewKey) (shown string, err error) {
	err = n.update(ctx, func(t scoped) error {
		var working int64
		if err := t.query(func(scan func(...any) error) error { return scan(&working) },
			`SELECT count(*) FROM api_keys WHERE tenant = $1 AND revoked_ms = 0 AND (expires_ms = 0 OR expires_ms > NOW_MS)`); err != nil || working > 0 {
			return err
		}
		_, shown, err = createKey(t, o)
		return err
	})
	return shown, err
}

// How many keys a tenant has at most: that may still be used, and that are kept of
// those that were revoked or have expired.
const (
	maxKeys    = 1000
	maxOldKeys = 1000
)

const oldKey = `(revoked_ms > 0 OR expires_ms > 0 AND expires_ms <= NOW_MS)`

func createKey(t scoped, o *NewKey) (*Key, string, error) {
	if err := fewer(t, "keys", maxKeys, `SELECT count(*) FROM api_keys WHERE tenant = $1 AND NOT `+oldKey); err != nil {
		return nil, "", err
	}
	if _, err := t.exec(`DELETE FROM api_keys WHERE tenant = $1 AND ` + oldKey + ` AND id NOT IN
		(SELECT id FROM api_keys WHERE tenant = $1 AND ` + oldKey + fmt.Sprintf(` ORDER BY created_ms DESC LIMIT %d)`, maxOldKeys)); err != nil {
		return nil, "", err
	}
	id, secret := newSecret(8, keyIDLen), newSecret(keySecret, keyText.EncodedLen(keySecret))
	hash := sha256.Sum256([]byte(secret))
	scopes, err := marshal(o.Scopes)
	if err != nil {
		return nil, "", err
	}
	_, err = t.exec(`INSERT INTO api_keys (tenant, id, name, hash, scopes, created_ms, expires_ms, revoked_ms, used_ms)
		VALUES ($1, $2, $3, $4, $5, NOW_MS, CASE WHEN $6 > 0 THEN NOW_MS + $6 ELSE 0 END, 0, 0)`, id, o.Name, hash[:], scopes, o.Life.Milliseconds())
	if err != nil {
		return nil, "", err
	}
	k, err := keyIn(t, id)
	return k, keyPrefix + id + "_" + secret, err
}

func keyIn(t scoped, id string) (k *Key, err error) {
	err = t.query(func(scan func(...any) error) error {
		k, err = scanKey(scan)
		return err
	}, `SELECT `+keyColumns+` FROM api_keys WHERE tenant = $1 AND id = $2`, id)
	if err == nil && k == nil {
		err = ownError{fmt.Errorf("key %s: %w", id, ErrNoKey)}
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
			WHERE tenant = $1 AND (created_ms, id) < ($2, $3) ORDER BY created_ms DESC, id DESC LIMIT $4`, created, id)
		return err
	})
	return keys, next, err
}

// Key returns one of the tenant's keys, or fails with [ErrNoKey].
func (n *Tenant) Key(ctx context.Context, id string) (k *Key, err error) {
	err = n.view(ctx, func(t scoped) error {
		k, err = keyIn(t, id)
		return err
	})
	return k, err
}

// RevokeKey ends a key at once. Revoking it again changes nothing.
func (n *Tenant) RevokeKey(ctx context.Context, id string) error {
	return n.update(ctx, func(t scoped) error {
		if _, err := keyIn(t, id); err != nil {
			return err
		}
		_, err := t.exec(`UPDATE api_keys SET revoked_ms = NOW_MS WHERE tenant = $1 AND id = $2 AND revoked_ms = 0`, id)
		return err
	})
}

// RevokeKeys revokes all keys of the tenant.
func (n *Tenant) RevokeKeys(ctx context.Context) error {
	return n.update(ctx, func(t scoped) error {
		_, err := t.exec(`UPDATE api_keys SET revoked_ms = NOW_MS WHERE tenant = $1 AND revoked_ms = 0`)
		return err
	})
}

// RotateKey makes a key like another one, with the same name, scopes and
// length of life. The old one works for as long as grace says.
func (n *Tenant) RotateKey(ctx context.Context, id string, grace time.Duration) (k *Key, shown string, err error) {
	err = n.update(ctx, func(t scoped) error {
		old, err := keyIn(t, id)
		if err != nil {
			return err
		}
		if !old.Revoked.IsZero() {
			return ownError{fmt.Errorf("key %s: %w: it was revoked; create a new one", id, ErrNoKey)}
		}
		o := &NewKey{Name: old.Name, Scopes: old.Scopes}
		if !old.Expires.IsZero() {
			o.Life = old.Expires.Sub(old.Created)
		}
		if _, err := t.exec(`UPDATE api_keys SET expires_ms = NOW_MS + $3 WHERE tenant = $1 AND id = $2 AND (expires_ms = 0 OR expires_ms > NOW_MS + $3)`,
			id, grace.Milliseconds()); err != nil {
			return err
		}
		k, shown, err = createKey(t, o)
		return err
	})
	return k, shown, err
}

// Authenticate implements [Platform]. What a key that is not known takes is the
// same whatever is wrong with it, but for whether its public name is in use.
func (s *store) Authenticate(ctx context.Context, shown string) (*Key, *TenantInfo, error) {
	id, secret, ok := strings.Cut(strings.TrimPrefix(shown, keyPrefix), "_")
	if !ok || !strings.HasPrefix(shown, keyPrefix) || len(id) != keyIDLen || len(secret) != keyText.EncodedLen(keySecret) {
		return nil, nil, errUnknownKey
	}
	given := sha256.Sum256([]byte(secret))
	var k *Key
	var info *TenantInfo
	var hash []byte
	var now int64
	err := s.view(ctx, func(t tx) error {
		err := t.query(func(scan func(...any) error) (err error) {
			k, err = scanKey(scan, &hash, &now)
			hash = bytes.Clone(hash)
			return err
		}, `SELECT `+keyColumns+`, hash, NOW_MS FROM api_keys WHERE id = $1`, id)
		if err == nil && k != nil {
			info, err = tenantIn(t, k.Tenant) // its keys go with it
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
	if now-k.Used.UnixMilli() > keyUseEvery.Milliseconds() {
		err = s.update(ctx, true, func(t tx) error {
			_, err := t.exec(`UPDATE api_keys SET used_ms = NOW_MS WHERE id = $1`, id)
			return err
		})
	}
	return k, info, err
}
