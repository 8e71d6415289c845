package store

import (
	"cmp"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A TenantQuota limits a tenant. The store saves it as JSON. Fields are unlimited when 0, except
// those with a default. The server, not the store, enforces MemoryBytes and the fields after it up to
// RequestsPerMin.
type TenantQuota struct {
	ConcurrentRuns int64 `json:"concurrent_runs,omitempty"`
	RunsPerDay     int64 `json:"runs_per_day,omitempty"`
	TokensPerDay   int64 `json:"tokens_per_day,omitempty"` // prompts and completions together
	FuelPerDay     int64 `json:"fuel_per_day,omitempty"`
	Modules        int64 `json:"modules,omitempty"`
	StorageBytes   int64 `json:"storage_bytes,omitempty"` // bytes of modules, agents, gateways and secrets
	// bytes of durable values; the default is [Quota].All
	ValueBytes int64 `json:"value_bytes,omitempty"`
	// bytes of runs' journals; the default is [DefaultJournalBytes]
	JournalBytes       int64 `json:"journal_bytes,omitempty"`
	JournalBytesPerDay int64 `json:"journal_bytes_per_day,omitempty"` // the default is [DefaultJournalBytesPerDay]
	MemoryBytes        int64 `json:"memory_bytes,omitempty"`
	UploadBytes        int64 `json:"upload_bytes,omitempty"`
	InputBytes         int64 `json:"input_bytes,omitempty"`
	Requests           int64 `json:"concurrent_requests,omitempty"`
	RequestsPerMin     int64 `json:"requests_per_minute,omitempty"`

	Threads        int64 `json:"threads,omitempty"`         // the default is [DefaultThreads]
	ThreadMessages int64 `json:"thread_messages,omitempty"` // messages of a thread; the default is [DefaultThreadMessages]
	ThreadBytes    int64 `json:"thread_bytes,omitempty"`    // bytes of a thread's messages; the default is [DefaultThreadBytes]
	QueuedRuns     int64 `json:"queued_runs,omitempty"`     // runs in the queue of a thread; the default is [DefaultQueuedRuns]
}

// Quotas of threads of a tenant whose own quota does not set them.
const (
	DefaultThreads        = 100_000
	DefaultThreadMessages = 10_000
	DefaultThreadBytes    = 16 << 20
	DefaultQueuedRuns     = 16
)

// Journal quotas of a tenant whose own quota does not set them, in bytes.
const (
	DefaultJournalBytes       = 4 << 30
	DefaultJournalBytesPerDay = 2 << 30
)

func (q *TenantQuota) journalBytes() int64 { return cmp.Or(q.JournalBytes, DefaultJournalBytes) }

func (q *TenantQuota) journalBytesPerDay() int64 {
	return cmp.Or(q.JournalBytesPerDay, DefaultJournalBytesPerDay)
}

// A QuotaError reports that a quota of a tenant, or a limit that applies to every tenant, is
// exhausted.
type QuotaError struct {
	Quota string // the name in [TenantQuota]'s JSON, or the kind of limited rows, such as "keys"
	Limit int64
	Used  int64
	// RetryAfter is the time until the quota may allow more; 0 if only the tenant or the
	// operator can change that.
	RetryAfter time.Duration
	// Advice replaces the default advice, which is to delete something or to ask the operator. It may
	// be empty.
	Advice string
}

// Error returns the quota and advice.
func (e *QuotaError) Error() string {
	advice := "; delete something, or ask the operator for a larger quota"
	switch {
	case e.Advice != "":
		advice = "; " + e.Advice
	case e.RetryAfter > 0:
		advice = fmt.Sprintf("; try again in %v", e.RetryAfter.Round(time.Second))
	}
	return fmt.Sprintf("the quota %s is reached: %d of %d%s", e.Quota, e.Used, e.Limit, advice)
}

// checkQuota returns a [*QuotaError] if used+more exceeds limit. A limit of 0 means no limit.
func checkQuota(quota string, limit, used, more int64, retry time.Duration) error {
	if limit <= 0 || used+more <= limit {
		return nil
	}
	return database.ForCaller(&QuotaError{Quota: quota, Limit: limit, Used: used, RetryAfter: retry})
}

// checkStorage fails with a [*QuotaError] if the tenant's stored bytes, plus more, exceed its
// storage quota.
func checkStorage(t scoped, q TenantQuota, more int64) error {
	if q.StorageBytes <= 0 {
		return nil
	}
	used := int64(0)
	for _, sql := range []string{
		`SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM tenant_modules WHERE tenant = $1`,
		`SELECT CAST(COALESCE(sum(bytes), 0) AS BIGINT) FROM agent_room WHERE tenant = $1`,
		`SELECT CAST(COALESCE(sum(length(body)), 0) AS BIGINT) FROM tenant_gateways WHERE tenant = $1`,
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
