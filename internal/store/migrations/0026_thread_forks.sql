-- The thread that a thread was forked from, if any; it may be deleted.
ALTER TABLE threads ADD COLUMN parent TEXT NOT NULL DEFAULT '';
