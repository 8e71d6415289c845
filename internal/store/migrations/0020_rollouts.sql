-- Names of versions of agents, such as stable, and the latest changes of these names. Version 0 in a
-- move means that there is no alias before or after it.
CREATE TABLE agent_aliases (
	tenant TEXT NOT NULL,
	agent TEXT NOT NULL,
	alias TEXT NOT NULL,
	version BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, agent, alias)
);
CREATE TABLE agent_alias_moves (
	tenant TEXT NOT NULL,
	agent TEXT NOT NULL,
	move BIGINT NOT NULL,
	alias TEXT NOT NULL,
	from_version BIGINT NOT NULL,
	to_version BIGINT NOT NULL,
	moved_by TEXT NOT NULL,
	reason TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, agent, move)
);
CREATE INDEX agent_alias_moves_alias ON agent_alias_moves (tenant, agent, alias, move);

-- Rollouts of a version to an alias. The stable version is the one that the alias has until the
-- rollout is promoted. An alias has at most one active rollout, whose ended_ms is 0.
CREATE TABLE rollouts (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	agent TEXT NOT NULL,
	alias TEXT NOT NULL,
	stable_version BIGINT NOT NULL,
	canary_version BIGINT NOT NULL,
	status TEXT NOT NULL,
	plan TEXT NOT NULL,
	by_thread BIGINT NOT NULL,
	percent BIGINT NOT NULL,
	step BIGINT NOT NULL,
	step_ms BIGINT NOT NULL,
	paused_ms BIGINT NOT NULL,
	checked_ms BIGINT NOT NULL,
	started_by TEXT NOT NULL,
	reason TEXT NOT NULL,
	figures TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	ended_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX rollouts_active ON rollouts (tenant, agent, alias) WHERE ended_ms = 0;
CREATE INDEX rollouts_check ON rollouts (checked_ms) WHERE ended_ms = 0;
CREATE INDEX rollouts_list ON rollouts (tenant, agent, created_ms, id);

-- The finished runs of each rollout.
CREATE TABLE rollout_runs (
	tenant TEXT NOT NULL,
	rollout TEXT NOT NULL,
	arm TEXT NOT NULL,
	finished_ms BIGINT NOT NULL,
	run TEXT NOT NULL,
	faults BIGINT NOT NULL,
	denials BIGINT NOT NULL,
	failed BIGINT NOT NULL,
	active_ms BIGINT NOT NULL,
	prompt_tokens BIGINT NOT NULL,
	completion_tokens BIGINT NOT NULL,
	PRIMARY KEY (tenant, rollout, arm, finished_ms, run)
);

-- The threads that got the stable version of a rollout by thread, which they keep.
CREATE TABLE rollout_threads (
	tenant TEXT NOT NULL,
	rollout TEXT NOT NULL,
	thread TEXT NOT NULL,
	PRIMARY KEY (tenant, rollout, thread)
);

-- Time that each run was in progress, without its pauses, and its tool calls that gates denied.
ALTER TABLE runs ADD COLUMN active_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN denials BIGINT NOT NULL DEFAULT 0;
