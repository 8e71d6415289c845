-- Who uses a platform. The empty tenant is the operator: what it owns is what
-- commands that know no tenants own.
CREATE TABLE tenants (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	quota TEXT NOT NULL,
	policy TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL
);
INSERT INTO tenants (id, name, quota, policy, created_ms, updated_ms) VALUES ('', 'operator', '{}', '{}', NOW_MS, NOW_MS);

-- Keys of the API. Of the secret there is only its SHA-256.
CREATE TABLE api_keys (
	id TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	hash BYTES NOT NULL,
	scopes TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	revoked_ms BIGINT NOT NULL,
	used_ms BIGINT NOT NULL
);
CREATE INDEX api_keys_tenant ON api_keys (tenant, created_ms);

-- Which tenants brought a module, and what it says of itself. The bytes lie in
-- modules, once for all tenants.
CREATE TABLE tenant_modules (
	tenant TEXT NOT NULL,
	digest TEXT NOT NULL,
	kind TEXT NOT NULL,
	size BIGINT NOT NULL,
	about TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, digest)
);
CREATE INDEX tenant_modules_digest ON tenant_modules (digest);
CREATE TABLE module_names (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	version TEXT NOT NULL,
	digest TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, name, version)
);
CREATE TABLE blocked_modules (
	digest TEXT PRIMARY KEY,
	reason TEXT NOT NULL,
	created_ms BIGINT NOT NULL
);

-- Each version of an agent, and which modules it names.
CREATE TABLE agents (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	version BIGINT NOT NULL,
	digest TEXT NOT NULL,
	body BYTES NOT NULL,
	modules TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, name, version)
);

-- What was used, by day (UTC, as 2026-01-31), agent and module. The row with no
-- module has the runs, tokens and time of the agent; the others have fuel.
CREATE TABLE tenant_usage (
	tenant TEXT NOT NULL,
	day TEXT NOT NULL,
	agent TEXT NOT NULL,
	module TEXT NOT NULL,
	runs BIGINT NOT NULL,
	prompt_tokens BIGINT NOT NULL,
	completion_tokens BIGINT NOT NULL,
	fuel BIGINT NOT NULL,
	wall_ms BIGINT NOT NULL,
	calls BIGINT NOT NULL,
	PRIMARY KEY (tenant, day, agent, module)
);
-- Runs that were let in, until they are in the table of runs.
CREATE TABLE run_places (
	run TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	until_ms BIGINT NOT NULL
);
CREATE INDEX run_places_tenant ON run_places (tenant);

-- Credentials, sealed with the key that is named.
CREATE TABLE secrets (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	sealed_by TEXT NOT NULL,
	sealed BYTES NOT NULL,
	updated_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, name)
);
