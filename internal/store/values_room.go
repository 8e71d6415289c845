package store

import (
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// roomForValues fails if all that the entries of a tenant keep is more than it may
// have. What is over is looked for among the others only then: each write does so for
// its own entry.
func (s *store) roomForValues(t tx, scope chain.ValueScope) error {
	limit, err := s.valueBytes(t, scope.Tenant)
	if err != nil {
		return err
	}
	var entries, kept int64
	for tried := false; ; tried = true {
		if _, err := one(t, `SELECT count(*), CAST(COALESCE(sum(bytes), 0) AS BIGINT) FROM module_usage WHERE tenant = $1`,
			[]any{scope.Tenant}, &entries, &kept); err != nil {
			return err
		}
		if kept <= limit && entries <= s.quota.Entries || tried {
			break
		}
		if err := makeRoom(t, scope); err != nil {
			return err
		}
	}
	switch {
	case entries > s.quota.Entries:
		return valueError(abi.CodeLimit, "%d entries have durable values, as many as may; delete the values of one, or give them a time to live", s.quota.Entries)
	case kept > limit:
		return valueError(abi.CodeLimit, "the durable values of all modules together are limited to %d bytes; delete some, or give them a time to live", limit)
	}
	return nil
}

// valueBytes is how much all entries of a tenant may keep.
func (s *store) valueBytes(t tx, tenant string) (int64, error) {
	var quota string
	known, err := one(t, `SELECT quota FROM tenants WHERE id = $1`, []any{tenant}, &quota)
	if err != nil || !known {
		return s.quota.All, err
	}
	var q TenantQuota
	if err := json.Unmarshal([]byte(quota), &q); err != nil {
		return 0, ownError{&Error{Corrupt, "", fmt.Errorf("the quota of tenant %s: %w", tenant, err)}}
	}
	if q.ValueBytes > 0 {
		return q.ValueBytes, nil
	}
	return s.quota.All, nil
}

// crowd is how many entries that have something to forget are looked at for one write.
const crowd = 16

// makeRoom forgets, of a tenant's other entries, values whose time is over, and those
// entries that have none left.
func makeRoom(t tx, scope chain.ValueScope) error {
	var entries []string
	err := t.query(func(scan func(...any) error) error {
		var entry string
		err := scan(&entry)
		entries = append(entries, entry)
		return err
	}, `SELECT DISTINCT entry FROM module_values WHERE tenant = $1 AND entry <> $2 AND expires_ms > 0 AND expires_ms <= NOW_MS LIMIT $3`,
		scope.Tenant, scope.Entry, int64(crowd))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := expire(t, chain.ValueScope{Tenant: scope.Tenant, Entry: entry}, ""); err != nil {
			return err
		}
	}
	_, err = t.exec(`DELETE FROM module_usage WHERE tenant = $1 AND entry <> $2 AND names <= 0`, scope.Tenant, scope.Entry)
	return err
}
