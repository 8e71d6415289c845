-- Each list reads its pages in the order of an index: by creation time and, within a
-- millisecond, by id.
CREATE INDEX runs_list ON runs (tenant, created_ms, id);
CREATE INDEX runs_list_status ON runs (tenant, status, created_ms, id);
CREATE INDEX runs_list_agent ON runs (tenant, agent, created_ms, id);
DROP INDEX IF EXISTS runs_created;
CREATE INDEX tenant_modules_list ON tenant_modules (tenant, created_ms, digest);
CREATE INDEX module_names_digest ON module_names (tenant, digest);
