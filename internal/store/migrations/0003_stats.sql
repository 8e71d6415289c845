-- What each entry of a run's chain used.
ALTER TABLE runs ADD COLUMN stats TEXT NOT NULL DEFAULT '';
