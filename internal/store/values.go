package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// maxTTL is the longest time to live: ten years.
const maxTTL = 10 * 365 * 24 * time.Hour

// sweep is how many values whose time is over a write deletes.
const sweep = 16

// A held is a value as the database has it.
type held struct {
	value   []byte
	version int64
	expires int64
}

func valueError(code abi.Code, format string, args ...any) error {
	return ownError{&abi.Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: code == abi.CodeConflict}}
}

// checkValueKey refuses keys that no value can have.
func checkValueKey(key string) error {
	switch {
	case key == "":
		return valueError(abi.CodeInvalid, "a durable key is empty")
	case len(key) > abi.MaxKey:
		return valueError(abi.CodeLimit, "a durable key has at most %d bytes", abi.MaxKey)
	case bytes.IndexByte([]byte(key), 0) >= 0:
		return valueError(abi.CodeInvalid, "a durable key has a zero byte")
	}
	return nil
}

// living are values whose time is not over.
const living = ` AND (expires_ms = 0 OR expires_ms > NOW_MS)`

// getHeld reads a value, if that is also true of it.
func getHeld(t tx, s chain.ValueScope, key, also string) (h held, ok bool, err error) {
	ok, err = one(t, `SELECT value, version, expires_ms FROM module_values WHERE tenant = $1 AND entry = $2 AND name = $3`+also,
		[]any{s.Tenant, s.Entry, key}, &h.value, &h.version, &h.expires)
	h.value = bytes.Clone(h.value)
	return h, ok, err
}

// GetValue implements [chain.Values].
func (s *store) GetValue(ctx context.Context, scope chain.ValueScope, key string) (v abi.LocalValue, ok bool, err error) {
	if err := checkValueKey(key); err != nil {
		return v, false, unwrap(err)
	}
	err = s.view(ctx, func(t tx) error {
		h, found, err := getHeld(t, scope, key, living)
		v, ok = abi.LocalValue{Value: h.value, Version: h.version}, found
		return err
	})
	return v, ok, err
}

// SetValue implements [chain.Values].
func (s *store) SetValue(ctx context.Context, scope chain.ValueScope, key string, value json.RawMessage, version int64, ttl time.Duration) (now int64, err error) {
	switch {
	case abi.Valid(value) != nil:
		return 0, unwrap(valueError(abi.CodeInvalid, "the value of durable key %s is not JSON: %v", key, abi.Valid(value)))
	case int64(len(value)) > s.quota.Value:
		return 0, unwrap(valueError(abi.CodeLimit, "the value of durable key %s has %d bytes; at most %d are allowed", key, len(value), s.quota.Value))
	case ttl < 0 || ttl > maxTTL:
		return 0, unwrap(valueError(abi.CodeInvalid, "the time to live of durable key %s is %v; want 0 for none, up to %v", key, ttl, maxTTL))
	}
	err = s.change(ctx, scope, key, func(t tx, was held, has bool) (*held, error) {
		if version != abi.LocalAlways && version != was.version {
			return nil, valueError(abi.CodeConflict, "durable key %s has version %d, not %d", key, was.version, version)
		}
		return &held{value: value, expires: ttl.Milliseconds()}, nil
	}, &now)
	return now, err
}

// AddValue implements [chain.Values].
func (s *store) AddValue(ctx context.Context, scope chain.ValueScope, key string, delta int64) (sum int64, err error) {
	var version int64
	err = s.change(ctx, scope, key, func(_ tx, was held, has bool) (*held, error) {
		var n int64
		if has {
			var err error
			if n, err = strconv.ParseInt(string(bytes.TrimSpace(was.value)), 10, 64); err != nil {
				return nil, valueError(abi.CodeInvalid, "durable key %s is not a whole number", key)
			}
		}
		if sum = n + delta; delta != 0 && (sum > n) != (delta > 0) {
			return nil, valueError(abi.CodeInvalid, "durable key %s would overflow", key)
		}
		return &held{value: strconv.AppendInt(nil, sum, 10), expires: keepTTL}, nil
	}, &version)
	return sum, err
}

// DeleteValue implements [chain.Values].
func (s *store) DeleteValue(ctx context.Context, scope chain.ValueScope, key string) error {
	return s.change(ctx, scope, key, func(tx, held, bool) (*held, error) { return nil, nil }, nil)
}

// keepTTL leaves the time to live of a value as it is.
const keepTTL = -1

// change replaces a value by what fn makes of it, nil for none, within the quota.
func (s *store) change(ctx context.Context, scope chain.ValueScope, key string, fn func(t tx, was held, has bool) (*held, error), version *int64) error {
	if err := checkValueKey(key); err != nil {
		return unwrap(err)
	}
	return s.update(ctx, false, func(t tx) error {
		// The row of the entry's usage is what writers of the entry wait for.
		if _, err := t.exec(`INSERT INTO module_usage (tenant, entry, names, bytes, version) VALUES ($1, $2, 0, 0, 0)
			ON CONFLICT (tenant, entry) DO UPDATE SET version = module_usage.version`, scope.Tenant, scope.Entry); err != nil {
			return err
		}
		if err := expire(t, scope, key); err != nil {
			return err
		}
		// Whether its time is over was asked already: a second answer could be
		// another one, and the value be counted twice.
		was, has, err := getHeld(t, scope, key, "")
		if err != nil {
			return err
		}
		next, err := fn(t, was, has)
		if err != nil {
			return err
		}
		names, size := int64(0), int64(0)
		if has {
			names, size = names-1, size-int64(len(key)+len(was.value))
		}
		if next != nil {
			names, size = names+1, size+int64(len(key)+len(next.value))
		}
		n, err := t.exec(`UPDATE module_usage SET names = names + CAST($3 AS BIGINT), bytes = bytes + CAST($4 AS BIGINT), version = version + 1
			WHERE tenant = $1 AND entry = $2 AND (CAST($3 AS BIGINT) <= 0 OR names + CAST($3 AS BIGINT) <= $5)
				AND (CAST($4 AS BIGINT) <= 0 OR bytes + CAST($4 AS BIGINT) <= $6)`,
			scope.Tenant, scope.Entry, names, size, s.quota.Keys, s.quota.Bytes)
		switch {
		case err != nil:
			return err
		case n == 0:
			return valueError(abi.CodeLimit, "the durable values of an entry are limited to %d bytes and %d keys; delete some, or give them a time to live", s.quota.Bytes, s.quota.Keys)
		case next == nil:
			_, err = t.exec(`DELETE FROM module_values WHERE tenant = $1 AND entry = $2 AND name = $3`, scope.Tenant, scope.Entry, key)
			return err
		case size > 0:
			if err := s.roomForValues(t, scope); err != nil {
				return err
			}
		}
		return put(t, scope, key, next, version)
	})
}

// put writes a value with the entry's next version.
func put(t tx, scope chain.ValueScope, key string, next *held, version *int64) error {
	if _, err := one(t, `SELECT version FROM module_usage WHERE tenant = $1 AND entry = $2`, []any{scope.Tenant, scope.Entry}, version); err != nil {
		return err
	}
	expires := "CASE WHEN CAST($6 AS BIGINT) = 0 THEN 0 ELSE NOW_MS + CAST($6 AS BIGINT) END"
	kept := "excluded.expires_ms"
	if next.expires == keepTTL {
		next.expires, kept = 0, "module_values.expires_ms"
	}
	_, err := t.exec(`INSERT INTO module_values (tenant, entry, name, value, version, expires_ms) VALUES ($1, $2, $3, $4, $5, `+expires+`)
		ON CONFLICT (tenant, entry, name) DO UPDATE SET value = excluded.value, version = excluded.version, expires_ms = `+kept,
		scope.Tenant, scope.Entry, key, next.value, *version, next.expires)
	return err
}

// expire deletes the value of a key if its time is over, and some others.
func expire(t tx, scope chain.ValueScope, key string) error {
	type over struct {
		name string
		size int64
	}
	var list []over
	err := t.query(func(scan func(...any) error) error {
		var o over
		err := scan(&o.name, &o.size)
		list = append(list, o)
		return err
	}, `SELECT name, length(value) FROM module_values WHERE tenant = $1 AND entry = $2 AND expires_ms > 0 AND expires_ms <= NOW_MS
		ORDER BY CASE WHEN name = $3 THEN 0 ELSE 1 END, expires_ms LIMIT $4`, scope.Tenant, scope.Entry, key, int64(sweep))
	if err != nil || len(list) == 0 {
		return err
	}
	var size int64
	for _, o := range list {
		if _, err := t.exec(`DELETE FROM module_values WHERE tenant = $1 AND entry = $2 AND name = $3`, scope.Tenant, scope.Entry, o.name); err != nil {
			return err
		}
		size += int64(len(o.name)) + o.size
	}
	_, err = t.exec(`UPDATE module_usage SET names = names - $3, bytes = bytes - $4 WHERE tenant = $1 AND entry = $2`,
		scope.Tenant, scope.Entry, int64(len(list)), size)
	return err
}

// unwrap is an error that never saw the database.
func unwrap(err error) error {
	known, _ := ours(err, "")
	return known
}
