-- The number of days after which the threads of a tenant are deleted; tenants without a row keep
-- theirs.
CREATE TABLE thread_retention (
	tenant TEXT PRIMARY KEY,
	days BIGINT NOT NULL
);
CREATE INDEX threads_tenant_updated ON threads (tenant, updated_ms);
-- Threads that are being deleted or forked.
CREATE INDEX threads_hidden ON threads (updated_ms) WHERE version < 0;
