-- Processes that run runs, as of their last heartbeat. A process that ends by itself deletes
-- its row, so a row whose heartbeats have stopped is an unclean exit.
CREATE TABLE processes (
	owner TEXT PRIMARY KEY,
	node TEXT NOT NULL,
	seen_ms BIGINT NOT NULL,
	pressure BIGINT NOT NULL,
	used_bytes BIGINT NOT NULL,
	limit_bytes BIGINT NOT NULL
);

-- What the runs of a process held at its last heartbeat, and for how long they wanted more
-- than their share.
CREATE TABLE run_accounts (
	owner TEXT NOT NULL,
	run TEXT NOT NULL,
	held_bytes BIGINT NOT NULL,
	share_bytes BIGINT NOT NULL,
	over_ms BIGINT NOT NULL,
	PRIMARY KEY (owner, run)
);

-- Runs that a process resumed alone, since memory had killed the process before it.
CREATE TABLE suspects (
	run TEXT PRIMARY KEY,
	owner TEXT NOT NULL
);

-- The evidence against runs that are quarantined.
CREATE TABLE quarantine (
	run TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	node TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	reason TEXT NOT NULL,
	held_bytes BIGINT NOT NULL,
	share_bytes BIGINT NOT NULL,
	used_bytes BIGINT NOT NULL,
	limit_bytes BIGINT NOT NULL,
	memory BIGINT NOT NULL
);
