-- Bytes that each run wrote to the journal, and how many of them its tenant's usage does
-- not count yet. They are counted when the run stops, and in large portions before that.
ALTER TABLE runs ADD COLUMN journal_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN journal_due BIGINT NOT NULL DEFAULT 0;
UPDATE runs SET journal_bytes = 256 + length(title) + COALESCE(length(spec), 0) + length(modules)
	+ CAST(COALESCE((SELECT sum(128 + length(body)) FROM run_log WHERE run_log.run = runs.id), 0) AS BIGINT)
	+ CAST(COALESCE((SELECT sum(length(pieces.body)) FROM run_log JOIN pieces ON pieces.id = run_log.pieces WHERE run_log.run = runs.id AND run_log.pieces <> ''), 0) AS BIGINT)
	+ CAST(COALESCE((SELECT sum(128 + length(body)) FROM run_events WHERE run_events.run = runs.id), 0) AS BIGINT)
	+ CAST(COALESCE((SELECT sum(length(pieces.body)) FROM run_events JOIN pieces ON pieces.id = run_events.pieces WHERE run_events.run = runs.id AND run_events.pieces <> ''), 0) AS BIGINT)
	+ CAST(COALESCE((SELECT sum(128 + length(body)) FROM run_traces WHERE run_traces.run = runs.id), 0) AS BIGINT);

-- Bytes of the runs that each tenant keeps.
CREATE TABLE journal_room (
	tenant TEXT PRIMARY KEY,
	bytes BIGINT NOT NULL
);
INSERT INTO journal_room (tenant, bytes)
	SELECT tenant, CAST(sum(journal_bytes) AS BIGINT) FROM runs WHERE tenant <> '' GROUP BY tenant;

-- Bytes written on each day.
ALTER TABLE tenant_usage ADD COLUMN journal_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_days ADD COLUMN journal_bytes BIGINT NOT NULL DEFAULT 0;
