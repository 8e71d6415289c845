-- Durable values of modules, and what each entry uses of its quota. Versions
-- never repeat in an entry, not even for a key that was deleted.
CREATE TABLE module_values (
	tenant TEXT NOT NULL,
	entry TEXT NOT NULL,
	name TEXT NOT NULL,
	value BYTES NOT NULL,
	version BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, entry, name)
);
CREATE INDEX module_values_expiry ON module_values (tenant, entry, expires_ms);

CREATE TABLE module_usage (
	tenant TEXT NOT NULL,
	entry TEXT NOT NULL,
	names BIGINT NOT NULL,
	bytes BIGINT NOT NULL,
	version BIGINT NOT NULL,
	PRIMARY KEY (tenant, entry)
);
