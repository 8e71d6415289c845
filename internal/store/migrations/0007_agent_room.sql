-- What the versions of each agent take together, and which modules its newest one names:
-- to keep a version, or to delete a module, would take looking at all of them otherwise.
CREATE TABLE agent_room (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (tenant, name)
);
INSERT INTO agent_room (tenant, name, bytes)
	SELECT tenant, name, CAST(sum(length(body)) AS BIGINT) FROM agents GROUP BY tenant, name;

CREATE TABLE agent_modules (
	tenant TEXT NOT NULL,
	digest TEXT NOT NULL,
	name TEXT NOT NULL,
	PRIMARY KEY (tenant, digest, name)
);
CREATE INDEX agent_modules_name ON agent_modules (tenant, name);
INSERT INTO agent_modules (tenant, digest, name)
	SELECT agents.tenant, tenant_modules.digest, agents.name FROM agents
	JOIN tenant_modules ON tenant_modules.tenant = agents.tenant AND agents.modules LIKE '%' || tenant_modules.digest || '%'
	WHERE version = (SELECT max(version) FROM agents newer WHERE newer.tenant = agents.tenant AND newer.name = agents.name);
