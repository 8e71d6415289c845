-- Tokens of the end users of tenants. Of the secret there is only its SHA-256. issuer is the id of the
-- API key that issued the token, agents is a list of references to agents as JSON, and thread is the
-- thread of all runs. threads is 1 if the token has access to all threads of the subject, and answers is 1 if it may
-- answer interrupts. metadata is that of all runs, as a JSON object. The counters have what the token's runs
-- used; a limit of 0 means none.
CREATE TABLE tokens (
	id TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	hash BYTES NOT NULL,
	issuer TEXT NOT NULL,
	subject TEXT NOT NULL,
	agents TEXT NOT NULL,
	thread TEXT NOT NULL,
	threads BIGINT NOT NULL,
	answers BIGINT NOT NULL,
	metadata TEXT NOT NULL,
	max_runs BIGINT NOT NULL,
	max_tokens BIGINT NOT NULL,
	max_cost_nano BIGINT NOT NULL,
	runs BIGINT NOT NULL,
	tokens BIGINT NOT NULL,
	cost_nano BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL
);
CREATE INDEX tokens_list ON tokens (tenant, created_ms, id);
CREATE INDEX tokens_subject ON tokens (tenant, subject, created_ms, id);
CREATE INDEX tokens_issuer ON tokens (tenant, issuer, created_ms);
CREATE INDEX tokens_expires ON tokens (expires_ms);

-- The end user of a run, and the token whose quotas count the run's model tokens; empty for the tenant's own
-- runs. Runs of a thread have the subject of the thread.
ALTER TABLE runs ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN token TEXT NOT NULL DEFAULT '';
