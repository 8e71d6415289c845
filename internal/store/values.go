package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

const (
	maxTTL     = 10 * 365 * 24 * time.Hour
	maxExpired = 16 // maximum number of expired values of an entry that one write deletes
	keepTTL    = -1 // value of storedValue.expires that leaves the expiry of the value unchanged
)

// A storedValue is a row of module_values.
type storedValue struct {
	value   []byte
	version int64
	expires int64 // milliseconds: the time of expiry if read, the time to live if written; 0 means never
}

// valueError returns an error for a module. Conflicts can be retried.
func valueError(code abi.Code, format string, args ...any) error {
	return database.ForCaller(
		&abi.Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: code == abi.CodeConflict},
	)
}

// checkValueKey rejects invalid keys.
func checkValueKey(key string) error {
	switch {
	case key == "":
		return valueError(abi.CodeInvalid, "the durable key is empty")
	case len(key) > contract.MaxKey:
		return valueError(abi.CodeLimit, "the durable key is longer than %d bytes", contract.MaxKey)
	case bytes.IndexByte([]byte(key), 0) >= 0:
		return valueError(abi.CodeInvalid, "the durable key contains a zero byte")
	}
	return nil
}

// unexpired is the SQL condition that selects values that have not expired.
const unexpired = ` AND (expires_ms = 0 OR expires_ms > NOW_MS)`

// readValue reads a value. ok is false if there is none. also is an additional SQL condition, or
// empty.
func readValue(t database.Tx, s hook.ValueScope, key, also string) (v storedValue, ok bool, err error) {
	ok, err = database.One(
		t,
		`SELECT value, version, expires_ms FROM module_values WHERE tenant = $1 AND entry = $2 AND name = $3`+also,
		[]any{s.Tenant, s.Entry, key},
		&v.value,
		&v.version,
		&v.expires,
	)
	v.value = bytes.Clone(v.value)
	return v, ok, err
}

// GetValue implements [hook.Values].
func (s *store) GetValue(
	ctx context.Context,
	scope hook.ValueScope,
	key string,
) (v contract.LocalValue, ok bool, err error) {
	if err := checkValueKey(key); err != nil {
		return v, false, forModule(err)
	}
	err = s.db.View(ctx, func(t database.Tx) error {
		stored, found, err := readValue(t, scope, key, unexpired)
		v, ok = contract.LocalValue{Value: stored.value, Version: stored.version}, found
		return err
	})
	return v, ok, err
}

// SetValue implements [hook.Values].
func (s *store) SetValue(
	ctx context.Context,
	scope hook.ValueScope,
	key string,
	value json.RawMessage,
	version int64,
	ttl time.Duration,
) (now int64, err error) {
	switch {
	case jsoncodec.Valid(value) != nil:
		return 0, forModule(
			valueError(abi.CodeInvalid, "the value of durable key %s is not JSON: %v", key, jsoncodec.Valid(value)),
		)
	case int64(len(value)) > s.quota.Value:
		return 0, forModule(
			valueError(abi.CodeLimit, "the value of durable key %s has %d bytes; at most %d are allowed",
				key, len(value), s.quota.Value),
		)
	case ttl < 0 || ttl > maxTTL:
		return 0, forModule(
			valueError(abi.CodeInvalid, "the time to live of durable key %s is %v; want 0 for none, or at most %v",
				key, ttl, maxTTL),
		)
	}
	err = s.change(ctx, scope, key, func(before storedValue, exists bool) (*storedValue, error) {
		if version != abi.LocalAlways && version != before.version {
			return nil, valueError(abi.CodeConflict, "durable key %s has version %d, not %d", key, before.version, version)
		}
		return &storedValue{value: value, expires: ttl.Milliseconds()}, nil
	}, &now)
	return now, err
}

// AddValue implements [hook.Values].
func (s *store) AddValue(ctx context.Context, scope hook.ValueScope, key string, delta int64) (sum int64, err error) {
	var version int64
	err = s.change(ctx, scope, key, func(before storedValue, exists bool) (*storedValue, error) {
		var n int64
		if exists {
			var err error
			if n, err = strconv.ParseInt(string(bytes.TrimSpace(before.value)), 10, 64); err != nil {
				return nil, valueError(abi.CodeInvalid, "the value of durable key %s is not an integer", key)
			}
		}
		if sum = n + delta; delta != 0 && (sum > n) != (delta > 0) {
			return nil, valueError(abi.CodeInvalid, "the value of durable key %s would overflow", key)
		}
		return &storedValue{value: strconv.AppendInt(nil, sum, 10), expires: keepTTL}, nil
	}, &version)
	return sum, err
}

// DeleteValue implements [hook.Values].
func (s *store) DeleteValue(ctx context.Context, scope hook.ValueScope, key string) error {
	return s.change(ctx, scope, key, func(storedValue, bool) (*storedValue, error) { return nil, nil }, nil)
}

// change replaces a value with the one that fn returns, within the quota. It deletes the value if
// fn returns nil, and fails if fn does. It sets version to the version of the new value.
func (s *store) change(
	ctx context.Context,
	scope hook.ValueScope,
	key string,
	fn func(before storedValue, exists bool) (*storedValue, error),
	version *int64,
) error {
	if err := checkValueKey(key); err != nil {
		return forModule(err)
	}
	return s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		// This locks the row of the entry's usage, for which other writers of the entry wait.
		if _, err := t.Exec(`INSERT INTO module_usage (tenant, entry, names, bytes, version) VALUES ($1, $2, 0, 0, 0)
			ON CONFLICT (tenant, entry) DO UPDATE SET version = module_usage.version`, scope.Tenant, scope.Entry); err != nil {
			return err
		}
		if err := expire(t, scope, key); err != nil {
			return err
		}
		// Expired values are deleted by now. A value that expires between the two statements
		// counts as unexpired, or its size would be subtracted twice.
		before, exists, err := readValue(t, scope, key, "")
		if err != nil {
			return err
		}
		next, err := fn(before, exists)
		if err != nil {
			return err
		}
		names, size := int64(0), int64(0)
		if exists {
			names, size = names-1, size-int64(len(key)+len(before.value))
		}
		if next != nil {
			names, size = names+1, size+int64(len(key)+len(next.value))
		}
		n, err := t.Exec(
			`UPDATE module_usage SET names = names + CAST($3 AS BIGINT), bytes = bytes + CAST($4 AS BIGINT), version = version + 1
			WHERE tenant = $1 AND entry = $2 AND (CAST($3 AS BIGINT) <= 0 OR names + CAST($3 AS BIGINT) <= $5)
				AND (CAST($4 AS BIGINT) <= 0 OR bytes + CAST($4 AS BIGINT) <= $6)`,
			scope.Tenant,
			scope.Entry,
			names,
			size,
			s.quota.Keys,
			s.quota.Bytes,
		)
		switch {
		case err != nil:
			return err
		case n == 0:
			return valueError(
				abi.CodeLimit,
				"the durable values of an entry are limited to %d bytes and %d keys; delete some, or give them a time to live",
				s.quota.Bytes,
				s.quota.Keys,
			)
		case next == nil:
			_, err = t.Exec(`DELETE FROM module_values WHERE tenant = $1 AND entry = $2 AND name = $3`,
				scope.Tenant, scope.Entry, key)
			return err
		case size > 0:
			if err := s.checkTenantValues(t, scope); err != nil {
				return err
			}
		}
		return put(t, scope, key, next, version)
	})
}

// put writes a value with the entry's next version, and stores that version in version.
func put(t database.Tx, scope hook.ValueScope, key string, next *storedValue, version *int64) error {
	if _, err := database.One(t, `SELECT version FROM module_usage WHERE tenant = $1 AND entry = $2`, []any{scope.Tenant, scope.Entry}, version); err != nil {
		return err
	}
	expires := "CASE WHEN CAST($6 AS BIGINT) = 0 THEN 0 ELSE NOW_MS + CAST($6 AS BIGINT) END"
	updated := "excluded.expires_ms"
	if next.expires == keepTTL {
		next.expires, updated = 0, "module_values.expires_ms"
	}
	_, err := t.Exec(
		`INSERT INTO module_values (tenant, entry, name, value, version, expires_ms) VALUES ($1, $2, $3, $4, $5, `+expires+`)
		ON CONFLICT (tenant, entry, name) DO UPDATE
			SET value = excluded.value, version = excluded.version, expires_ms = `+updated,
		scope.Tenant,
		scope.Entry,
		key,
		next.value,
		*version,
		next.expires,
	)
	return err
}

// expire deletes expired values of an entry, at most maxExpired. If the value of key has expired,
// it is deleted first.
func expire(t database.Tx, scope hook.ValueScope, key string) error {
	type expired struct {
		name string
		size int64
	}
	var list []expired
	err := t.Query(func(scan func(...any) error) error {
		var e expired
		err := scan(&e.name, &e.size)
		list = append(list, e)
		return err
	}, `SELECT name, length(value) FROM module_values WHERE tenant = $1 AND entry = $2 AND expires_ms > 0 AND expires_ms <= NOW_MS
		ORDER BY CASE WHEN name = $3 THEN 0 ELSE 1 END, expires_ms LIMIT $4`, scope.Tenant, scope.Entry, key, int64(maxExpired))
	if err != nil || len(list) == 0 {
		return err
	}
	var size int64
	for _, e := range list {
		if _, err := t.Exec(`DELETE FROM module_values WHERE tenant = $1 AND entry = $2 AND name = $3`, scope.Tenant, scope.Entry, e.name); err != nil {
			return err
		}
		size += int64(len(e.name)) + e.size
	}
	_, err = t.Exec(`UPDATE module_usage SET names = names - $3, bytes = bytes - $4 WHERE tenant = $1 AND entry = $2`,
		scope.Tenant, scope.Entry, int64(len(list)), size)
	return err
}

// forModule removes the mark of [database.ForCaller] from an error that did not pass through a
// transaction, which would have removed the mark.
func forModule(err error) error {
	err, _ = database.Classified(err, "")
	return err
}

// checkTenantValues fails if too many entries of a tenant have values, or if their values together
// exceed the tenant's quota. Before it fails, it deletes expired values of other entries and checks
// again. The caller has deleted expired values of its own entry.
func (s *store) checkTenantValues(t database.Tx, scope hook.ValueScope) error {
	limit, err := s.valueBytes(t, scope.Tenant)
	if err != nil {
		return err
	}
	var entries, size int64
	for tried := false; ; tried = true {
		if _, err := database.One(t, `SELECT count(*), CAST(COALESCE(sum(bytes), 0) AS BIGINT) FROM module_usage WHERE tenant = $1`,
			[]any{scope.Tenant}, &entries, &size); err != nil {
			return err
		}
		if size <= limit && entries <= s.quota.Entries || tried {
			break
		}
		if err := expireOthers(t, scope); err != nil {
			return err
		}
	}
	switch {
	case entries > s.quota.Entries:
		return valueError(
			abi.CodeLimit,
			"%d entries have durable values, which is the limit; delete the values of one, or give them a time to live",
			s.quota.Entries,
		)
	case size > limit:
		return valueError(
			abi.CodeLimit,
			"the durable values of all modules together are limited to %d bytes; delete some, or give them a time to live",
			limit,
		)
	}
	return nil
}

// valueBytes returns the maximum size of the values of all entries of a tenant.
func (s *store) valueBytes(t database.Tx, tenant string) (int64, error) {
	var quota string
	known, err := database.One(t, `SELECT quota FROM tenants WHERE id = $1`, []any{tenant}, &quota)
	if err != nil || !known {
		return s.quota.All, err
	}
	var q TenantQuota
	if err := json.Unmarshal([]byte(quota), &q); err != nil {
		return 0, database.Corruptf("the quota of tenant %s: %w", tenant, err)
	}
	if q.ValueBytes > 0 {
		return q.ValueBytes, nil
	}
	return s.quota.All, nil
}

// maxExpiredEntries is the maximum number of other entries whose expired values one write deletes.
const maxExpiredEntries = 16

// expireOthers deletes expired values of up to maxExpiredEntries entries of the tenant other than
// scope's, and the usage of other entries without values.
func expireOthers(t database.Tx, scope hook.ValueScope) error {
	entries, err := database.Strings(
		t,
		`SELECT DISTINCT entry FROM module_values WHERE tenant = $1 AND entry <> $2 AND expires_ms > 0 AND expires_ms <= NOW_MS LIMIT $3`,
		scope.Tenant,
		scope.Entry,
		int64(maxExpiredEntries),
	)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := expire(t, hook.ValueScope{Tenant: scope.Tenant, Entry: entry}, ""); err != nil {
			return err
		}
	}
	_, err = t.Exec(`DELETE FROM module_usage WHERE tenant = $1 AND entry <> $2 AND names <= 0`, scope.Tenant, scope.Entry)
	return err
}
