-- A database with one row of each kind, as commit d17eeae wrote it (schema version 9).
BEGIN TRANSACTION;
CREATE TABLE agent_modules (
	tenant TEXT NOT NULL,
	digest TEXT NOT NULL,
	name TEXT NOT NULL,
	PRIMARY KEY (tenant, digest, name)
);
INSERT INTO "agent_modules" VALUES('acme','4cbbd9be0cba685835755f827758705db5a413c5494c34262cd25946a73e7582','clerk');
CREATE TABLE agent_room (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (tenant, name)
);
INSERT INTO "agent_room" VALUES('acme','clerk',12);
CREATE TABLE agents (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	version BIGINT NOT NULL,
	digest TEXT NOT NULL,
	body BLOB NOT NULL,
	modules TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, name, version)
);
INSERT INTO "agents" VALUES('acme','clerk',1,'7847be33b4007caf8ecb267377ae85b0d781e229eabdc6b081fb63fdb2588084',X'6E616D653A20636C65726B0A','["4cbbd9be0cba685835755f827758705db5a413c5494c34262cd25946a73e7582"]',1795419611609);
CREATE TABLE api_keys (
	id TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	hash BLOB NOT NULL,
	scopes TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	revoked_ms BIGINT NOT NULL,
	used_ms BIGINT NOT NULL
);
INSERT INTO "api_keys" VALUES('fno4l6cf2c','acme','ci',X'B62A704E954D9C7F18462564A93C163F025BA316C7EC37F92768C497B5F60384','["runs:read"]',1795419611534,0,0,0);
CREATE TABLE blocked_modules (
	digest TEXT PRIMARY KEY,
	reason TEXT NOT NULL,
	created_ms BIGINT NOT NULL
);
INSERT INTO "blocked_modules" VALUES('4cbbd9be0cba685835755f827758705db5a413c5494c34262cd25946a73e7582','it leaks',1795419611630);
CREATE TABLE module_names (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	version TEXT NOT NULL,
	digest TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, name, version)
);
INSERT INTO "module_names" VALUES('acme','redact','1.0','4cbbd9be0cba685835755f827758705db5a413c5494c34262cd25946a73e7582',1795419611605);
CREATE TABLE module_usage (
	tenant TEXT NOT NULL,
	entry TEXT NOT NULL,
	names BIGINT NOT NULL,
	bytes BIGINT NOT NULL,
	version BIGINT NOT NULL,
	PRIMARY KEY (tenant, entry)
);
INSERT INTO "module_usage" VALUES('acme','redact',1,5,1);
CREATE TABLE module_values (
	tenant TEXT NOT NULL,
	entry TEXT NOT NULL,
	name TEXT NOT NULL,
	value BLOB NOT NULL,
	version BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, entry, name)
);
INSERT INTO "module_values" VALUES('acme','redact','seen',X'33',1,0);
CREATE TABLE modules (
	digest TEXT PRIMARY KEY,
	size BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	wasm BLOB NOT NULL
, pieces TEXT NOT NULL DEFAULT '');
INSERT INTO "modules" VALUES('4cbbd9be0cba685835755f827758705db5a413c5494c34262cd25946a73e7582',200000,1795419611602,X'','vchgrrikgap7m3q7drbub3yhtzotdnte-200000');
CREATE TABLE pieces (
	id TEXT NOT NULL,
	piece BIGINT NOT NULL,
	body BLOB NOT NULL,
	PRIMARY KEY (id, piece)
);
INSERT INTO "pieces" VALUES('vchgrrikgap7m3q7drbub3yhtzotdnte-200000',0,zeroblob(65536));
INSERT INTO "pieces" VALUES('vchgrrikgap7m3q7drbub3yhtzotdnte-200000',1,zeroblob(65536));
INSERT INTO "pieces" VALUES('vchgrrikgap7m3q7drbub3yhtzotdnte-200000',2,zeroblob(65536));
INSERT INTO "pieces" VALUES('vchgrrikgap7m3q7drbub3yhtzotdnte-200000',3,zeroblob(3392));
INSERT INTO "pieces" VALUES('jeoxwc4ndesct5lgwg4qlnzjnkjs5jvj-150000',0,zeroblob(65536));
INSERT INTO "pieces" VALUES('jeoxwc4ndesct5lgwg4qlnzjnkjs5jvj-150000',1,zeroblob(65536));
INSERT INTO "pieces" VALUES('jeoxwc4ndesct5lgwg4qlnzjnkjs5jvj-150000',2,zeroblob(18928));
CREATE TABLE run_events (
	run TEXT NOT NULL,
	first_seq BIGINT NOT NULL,
	last_seq BIGINT NOT NULL,
	body BLOB NOT NULL, pieces TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (run, first_seq)
);
INSERT INTO "run_events" VALUES('run_1',1,1,X'7B2274797065223A226C6F67222C22736571223A312C2272756E223A2272756E5F31222C2274696D655F6D73223A302C2274657874223A226576656E742031227D0A','');
CREATE TABLE run_log (
	run TEXT NOT NULL,
	entry BIGINT NOT NULL,
	body BLOB NOT NULL, pieces TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (run, entry)
);
INSERT INTO "run_log" VALUES('run_1',1,X'6669727374','');
INSERT INTO "run_log" VALUES('run_1',2,X'','jeoxwc4ndesct5lgwg4qlnzjnkjs5jvj-150000');
CREATE TABLE run_places (
	run TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	until_ms BIGINT NOT NULL
);
CREATE TABLE run_traces (
	run TEXT NOT NULL,
	part BIGINT NOT NULL,
	tenant TEXT NOT NULL,
	body BLOB NOT NULL,
	PRIMARY KEY (run, part)
);
INSERT INTO "run_traces" VALUES('run_1',1,'acme',X'612074696D656C696E65');
CREATE TABLE runs (
	id TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	agent TEXT NOT NULL,
	parent TEXT NOT NULL,
	title TEXT NOT NULL,
	status TEXT NOT NULL,
	finish_reason TEXT NOT NULL,
	step BIGINT NOT NULL,
	usage TEXT NOT NULL,
	fuel BIGINT NOT NULL,
	pending TEXT NOT NULL,
	epoch BIGINT NOT NULL,
	owner TEXT NOT NULL,
	lease_ms BIGINT NOT NULL,
	cancel BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	entries BIGINT NOT NULL,
	last_seq BIGINT NOT NULL,
	modules TEXT NOT NULL,
	spec BLOB
, stats TEXT NOT NULL DEFAULT '');
INSERT INTO "runs" VALUES('run_1','acme','clerk','','hello','paused','',3,'{"prompt_tokens":5,"completion_tokens":0,"total_tokens":5}',0,'',1,'me',1795419611671,0,1795419611631,1795419611671,2,1,'[{"entry":"redact","ring":"tenant","digest":"4cbbd9be0cba685835755f827758705db5a413c5494c34262cd25946a73e7582"}]',X'7B226167656E74223A22636C65726B227D','null');
CREATE TABLE schema_version (version BIGINT NOT NULL);
INSERT INTO "schema_version" VALUES(9);
CREATE TABLE secrets (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	sealed_by TEXT NOT NULL,
	sealed BLOB NOT NULL,
	updated_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, name)
);
INSERT INTO "secrets" VALUES('acme','OPENAI_API_KEY','main',X'A3443756CA58092C6D18470A01EF17EEDB2889750C7B139571F95C68915EAEC3',1795419611618);
CREATE TABLE staged (
	id TEXT PRIMARY KEY,
	written_ms BIGINT NOT NULL
);
CREATE TABLE tenant_modules (
	tenant TEXT NOT NULL,
	digest TEXT NOT NULL,
	kind TEXT NOT NULL,
	size BIGINT NOT NULL,
	about TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, digest)
);
INSERT INTO "tenant_modules" VALUES('acme','4cbbd9be0cba685835755f827758705db5a413c5494c34262cd25946a73e7582','wasm',200000,'{}',1795419611605);
CREATE TABLE tenant_usage (
	tenant TEXT NOT NULL,
	day TEXT NOT NULL,
	agent TEXT NOT NULL,
	module TEXT NOT NULL,
	runs BIGINT NOT NULL,
	prompt_tokens BIGINT NOT NULL,
	completion_tokens BIGINT NOT NULL,
	fuel BIGINT NOT NULL,
	wall_ms BIGINT NOT NULL,
	calls BIGINT NOT NULL,
	PRIMARY KEY (tenant, day, agent, module)
);
INSERT INTO "tenant_usage" VALUES('acme','2026-01-31','clerk','',2,5,0,7,0,0);
INSERT INTO "tenant_usage" VALUES('acme','2026-11-23','clerk','',0,5,0,0,40,3);
CREATE TABLE tenants (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	quota TEXT NOT NULL,
	policy TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL
);
INSERT INTO "tenants" VALUES('','operator','{}','{}',1795419611515,1795419611515);
INSERT INTO "tenants" VALUES('acme','Acme','{"runs_per_day":9,"modules":3}','{"grants":["*"]}',1795419611530,1795419611530);
CREATE TABLE usage_days (
	tenant TEXT NOT NULL,
	day TEXT NOT NULL,
	runs BIGINT NOT NULL,
	tokens BIGINT NOT NULL,
	fuel BIGINT NOT NULL,
	PRIMARY KEY (tenant, day)
);
INSERT INTO "usage_days" VALUES('acme','2026-01-31',2,5,7);
INSERT INTO "usage_days" VALUES('acme','2026-11-23',0,5,0);
CREATE INDEX runs_created ON runs (tenant, created_ms);
CREATE INDEX runs_status ON runs (status, created_ms);
CREATE INDEX module_values_expiry ON module_values (tenant, entry, expires_ms);
CREATE INDEX api_keys_tenant ON api_keys (tenant, created_ms);
CREATE INDEX tenant_modules_digest ON tenant_modules (digest);
CREATE INDEX run_places_tenant ON run_places (tenant);
CREATE INDEX agent_modules_name ON agent_modules (tenant, name);
CREATE INDEX staged_written ON staged (written_ms);
CREATE INDEX run_log_pieces ON run_log (run, pieces) WHERE pieces <> '';
CREATE INDEX run_events_pieces ON run_events (run, pieces) WHERE pieces <> '';
COMMIT;
