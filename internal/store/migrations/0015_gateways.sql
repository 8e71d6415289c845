-- Each version of a tenant's gateway, and the digests of the modules that it refers to.
CREATE TABLE tenant_gateways (
	tenant TEXT NOT NULL,
	version BIGINT NOT NULL,
	digest TEXT NOT NULL,
	body BYTES NOT NULL,
	modules TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, version)
);
