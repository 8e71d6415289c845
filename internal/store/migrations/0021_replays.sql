-- Replays of stored runs with another version of their agent, or with another module.
CREATE TABLE replays (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	agent TEXT NOT NULL,
	status TEXT NOT NULL,
	candidate TEXT NOT NULL,
	counts TEXT NOT NULL,
	total BIGINT NOT NULL,
	detail_bytes BIGINT NOT NULL,
	cancel BIGINT NOT NULL,
	epoch BIGINT NOT NULL,
	lease_ms BIGINT NOT NULL,
	started_by TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	ended_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, id)
);
CREATE INDEX replays_list ON replays (tenant, agent, created_ms, id);
CREATE INDEX replays_due ON replays (lease_ms) WHERE ended_ms = 0;
CREATE INDEX replays_ended ON replays (ended_ms);

-- The runs of each replay in their order, and what a replay of them found. The outcome is empty until
-- then.
CREATE TABLE replay_runs (
	tenant TEXT NOT NULL,
	replay TEXT NOT NULL,
	number BIGINT NOT NULL,
	run TEXT NOT NULL,
	outcome TEXT NOT NULL,
	attempts BIGINT NOT NULL,
	body BYTES NOT NULL,
	PRIMARY KEY (tenant, replay, number)
);
