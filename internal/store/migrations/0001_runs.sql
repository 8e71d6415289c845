-- A run, as lists show it, and the claim that writes to it.
CREATE TABLE runs (
	id TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	agent TEXT NOT NULL,
	parent TEXT NOT NULL,
	title TEXT NOT NULL,
	status TEXT NOT NULL,
	finish_reason TEXT NOT NULL,
	step BIGINT NOT NULL,
	usage TEXT NOT NULL,
	fuel BIGINT NOT NULL,
	pending TEXT NOT NULL,
	epoch BIGINT NOT NULL,
	owner TEXT NOT NULL,
	lease_ms BIGINT NOT NULL,
	cancel BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	entries BIGINT NOT NULL,
	last_seq BIGINT NOT NULL,
	modules TEXT NOT NULL,
	spec BYTES
);
CREATE INDEX runs_created ON runs (tenant, created_ms);
CREATE INDEX runs_status ON runs (status, created_ms);

-- What changed in the state of a run, entry by entry.
CREATE TABLE run_log (
	run TEXT NOT NULL,
	entry BIGINT NOT NULL,
	body BYTES NOT NULL,
	PRIMARY KEY (run, entry)
);

-- The events of a run: those of one commit in a row, a line each.
CREATE TABLE run_events (
	run TEXT NOT NULL,
	first_seq BIGINT NOT NULL,
	last_seq BIGINT NOT NULL,
	body BYTES NOT NULL,
	PRIMARY KEY (run, first_seq)
);

CREATE TABLE modules (
	digest TEXT PRIMARY KEY,
	size BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	wasm BYTES NOT NULL
);
