-- Timelines of runs: a part for each time that a run went on. They are thrown away
-- with the run.
CREATE TABLE run_traces (
	run TEXT NOT NULL,
	part BIGINT NOT NULL,
	tenant TEXT NOT NULL,
	body BYTES NOT NULL,
	PRIMARY KEY (run, part)
);
CREATE INDEX run_traces_tenant ON run_traces (tenant);
