-- Counters of finished runs for charts: by the hour and by the day in which the runs ended, and by kind.
-- Rows of kind agent count runs by agent and version; rows of kind module also by a module that the run
-- used, and rows of kind model by a model. name is the module's digest or the model.
CREATE TABLE run_series (
	tenant TEXT NOT NULL,
	period TEXT NOT NULL,
	kind TEXT NOT NULL,
	start_ms BIGINT NOT NULL,
	agent TEXT NOT NULL,
	version BIGINT NOT NULL,
	name TEXT NOT NULL,
	runs BIGINT NOT NULL,
	failed BIGINT NOT NULL,
	canceled BIGINT NOT NULL,
	prompt_tokens BIGINT NOT NULL,
	completion_tokens BIGINT NOT NULL,
	cost_nano BIGINT NOT NULL,
	faults BIGINT NOT NULL,
	denials BIGINT NOT NULL,
	calls BIGINT NOT NULL,
	hook_ms BIGINT NOT NULL,
	active_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, period, kind, start_ms, agent, version, name)
) WITHOUT_ROWID;

-- Histograms of the time that the runs of a row were in progress. A class has runs that took longer
-- than the class before it, and at most 2^(class/4) milliseconds.
CREATE TABLE run_latencies (
	tenant TEXT NOT NULL,
	period TEXT NOT NULL,
	kind TEXT NOT NULL,
	start_ms BIGINT NOT NULL,
	agent TEXT NOT NULL,
	version BIGINT NOT NULL,
	name TEXT NOT NULL,
	class BIGINT NOT NULL,
	runs BIGINT NOT NULL,
	PRIMARY KEY (tenant, period, kind, start_ms, agent, version, name, class)
) WITHOUT_ROWID;
