package store

import (
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A QuotaError reports that a quota is exhausted.
type QuotaError struct {
	Quota string // the quota's name in [TenantQuota]'s JSON
	Limit int64
	Used  int64
	// RetryAfter is the time until the quota may allow more; 0 if only the tenant or the
	// operator can change that.
	RetryAfter time.Duration
}

// Error returns the quota and advice.
func (e *QuotaError) Error() string {
	advice := "; delete something, or ask the operator for a larger quota"
	if e.RetryAfter > 0 {
		advice = fmt.Sprintf("; try again in %v", e.RetryAfter.Round(time.Second))
	}
	return fmt.Sprintf("the quota %s is reached: %d of %d%s", e.Quota, e.Used, e.Limit, advice)
}

// checkQuota returns a [*QuotaError] if used and more exceed a limit. A limit of 0 means no
// limit.
func checkQuota(quota string, limit, used, more int64, retry time.Duration) error {
	if limit <= 0 || used+more <= limit {
		return nil
	}
	return database.ForCaller(&QuotaError{Quota: quota, Limit: limit, Used: used, RetryAfter: retry})
}

// checkStorage fails with a [*QuotaError] if storing more bytes would exceed the tenant's
// quota.
func checkStorage(t scoped, q TenantQuota, more int64) error {
	if q.StorageBytes <= 0 {
		return nil
	}
	used := int64(0)
	for _, sql := range []string{
		`SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM tenant_modules WHERE tenant = $1`,
		`SELECT CAST(COALESCE(sum(bytes), 0) AS BIGINT) FROM agent_room WHERE tenant = $1`,
		`SELECT CAST(COALESCE(sum(length(sealed)), 0) AS BIGINT) FROM secrets WHERE tenant = $1`,
	} {
		var n int64
		if err := t.row([]any{&n}, sql); err != nil {
			return err
		}
		used += n
	}
	return checkQuota("storage_bytes", q.StorageBytes, used, more, 0)
}

// checkCount fails with a [*QuotaError] if the rows that a statement counts have reached a
// limit. Such limits apply to every tenant, and bound the number of small rows.
func checkCount(t scoped, what string, limit int64, sql string, args ...any) error {
	var n int64
	if err := t.row([]any{&n}, sql, args...); err != nil {
		return err
	}
	return checkQuota(what, limit, n, 1, 0)
}
