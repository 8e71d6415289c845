-- What a tenant used on a day altogether: quotas of a day would take adding up all of its
-- agents and modules for each run that begins.
CREATE TABLE usage_days (
	tenant TEXT NOT NULL,
	day TEXT NOT NULL,
	runs BIGINT NOT NULL,
	tokens BIGINT NOT NULL,
	fuel BIGINT NOT NULL,
	PRIMARY KEY (tenant, day)
);
INSERT INTO usage_days (tenant, day, runs, tokens, fuel)
	SELECT tenant, day, CAST(sum(runs) AS BIGINT), CAST(sum(prompt_tokens + completion_tokens) AS BIGINT), CAST(sum(fuel) AS BIGINT)
	FROM tenant_usage GROUP BY tenant, day;
