-- Large bytes, in pieces that were written before the row that has their id in place of
-- the bytes: none of them holds up others who write for long.
CREATE TABLE pieces (
	id TEXT NOT NULL,
	piece BIGINT NOT NULL,
	body BYTES NOT NULL,
	PRIMARY KEY (id, piece)
);

-- Pieces that no row has the id of, and when the last of them was written; 0: they are
-- being deleted.
CREATE TABLE staged (
	id TEXT PRIMARY KEY,
	written_ms BIGINT NOT NULL
);
CREATE INDEX staged_written ON staged (written_ms);

ALTER TABLE run_log ADD COLUMN pieces TEXT NOT NULL DEFAULT '';
CREATE INDEX run_log_pieces ON run_log (run, pieces) WHERE pieces <> '';
ALTER TABLE run_events ADD COLUMN pieces TEXT NOT NULL DEFAULT '';
CREATE INDEX run_events_pieces ON run_events (run, pieces) WHERE pieces <> '';
ALTER TABLE modules ADD COLUMN pieces TEXT NOT NULL DEFAULT '';
