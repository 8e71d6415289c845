-- Processes that executed a run and ended uncleanly, or that resumed a run after another process had ended
-- uncleanly. crashed_ms is the time at which the end was recorded, or 0. resumed_ms is the time at which
-- the process began to resume the run, or 0 if the run began there. named is 1 if the crash report of the
-- process names the run.
CREATE TABLE run_crashes (
	run TEXT NOT NULL,
	owner TEXT NOT NULL,
	crashed_ms BIGINT NOT NULL,
	resumed_ms BIGINT NOT NULL,
	named BIGINT NOT NULL,
	PRIMARY KEY (run, owner)
);
