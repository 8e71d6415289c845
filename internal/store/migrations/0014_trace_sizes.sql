-- Bytes of each timeline without compression, which limit the timelines of a run. They are 0 for
-- timelines that are older than this column.
ALTER TABLE run_traces ADD COLUMN size BIGINT NOT NULL DEFAULT 0;
