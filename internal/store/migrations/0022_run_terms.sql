-- What lists of runs filter by. faults counts the run's events; denied has the denials by module, and
-- models the tokens by model, both as JSON. cost_nano is in billionths of the currency.
ALTER TABLE runs ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN metadata TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN faults BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN denied TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN models TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN cost_nano BIGINT NOT NULL DEFAULT 0;

-- The terms by which runs are found: metadata, words of the title, modules, the agent's version. A list
-- reads the runs of a term in the order of their creation. The column of runs has the same terms as
-- JSON, so that they are deleted with the run.
ALTER TABLE runs ADD COLUMN terms TEXT NOT NULL DEFAULT '';
CREATE TABLE run_terms (
	tenant TEXT NOT NULL,
	term TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	run TEXT NOT NULL,
	PRIMARY KEY (tenant, term, created_ms, run)
) WITHOUT_ROWID;

-- Costs by day and agent.
ALTER TABLE tenant_usage ADD COLUMN cost_nano BIGINT NOT NULL DEFAULT 0;
