package store

import (
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

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
