-- Conversations that runs continue, one after the other. version is the number of the last run
-- that changed the messages, or -1 while the thread is being deleted. titled is 1 if a client set
-- the title.
CREATE TABLE threads (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	subject TEXT NOT NULL,
	agent TEXT NOT NULL,
	title TEXT NOT NULL,
	titled BIGINT NOT NULL,
	concurrency TEXT NOT NULL,
	version BIGINT NOT NULL,
	runs BIGINT NOT NULL,
	messages BIGINT NOT NULL,
	bytes BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, id)
);
CREATE INDEX threads_list ON threads (tenant, created_ms, id);
CREATE INDEX threads_list_agent ON threads (tenant, agent, created_ms, id);
CREATE INDEX threads_list_subject ON threads (tenant, subject, created_ms, id);
CREATE INDEX threads_updated ON threads (updated_ms);

CREATE TABLE thread_metadata (
	tenant TEXT NOT NULL,
	thread TEXT NOT NULL,
	name TEXT NOT NULL,
	value TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, thread, name)
);
CREATE INDEX thread_metadata_list ON thread_metadata (name, value, tenant, created_ms, thread);

-- The messages of threads. A message is part of its thread from the end of run number added, or
-- from the beginning if that is 0, to the end of run number removed, or to this day if that is 0.
-- So the runs of a thread begin with messages that are stored once.
CREATE TABLE thread_messages (
	tenant TEXT NOT NULL,
	thread TEXT NOT NULL,
	position BIGINT NOT NULL,
	added BIGINT NOT NULL,
	removed BIGINT NOT NULL,
	id TEXT NOT NULL,
	run TEXT NOT NULL,
	size BIGINT NOT NULL,
	body BYTES NOT NULL,
	pieces TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (tenant, thread, position, added)
);
CREATE INDEX thread_messages_removed ON thread_messages (tenant, thread, position, added) WHERE removed > 0;

-- The thread that a run continues, the run's number in it, and the number of messages with which
-- it began. erased is 1 if modules changed or removed some of these.
ALTER TABLE runs ADD COLUMN thread TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN thread_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN base BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN base_erased BIGINT NOT NULL DEFAULT 0;
CREATE INDEX runs_list_thread ON runs (tenant, thread, created_ms, id) WHERE thread <> '';
CREATE INDEX runs_thread_seq ON runs (tenant, thread, thread_seq) WHERE thread <> '';
CREATE INDEX runs_queued ON runs (tenant, thread, thread_seq) WHERE status = 'queued';
-- At most one run of a thread is unfinished at a time, apart from its queue.
CREATE UNIQUE INDEX runs_thread_busy ON runs (tenant, thread) WHERE thread <> '' AND status IN ('running', 'paused', 'quarantined');

ALTER TABLE journal_room ADD COLUMN threads BIGINT NOT NULL DEFAULT 0;
