-- The role of a key. The server gives a key with a role the scopes of the role, and a key without
-- one the scopes in its row.
ALTER TABLE api_keys ADD COLUMN role TEXT NOT NULL DEFAULT '';

-- People with a role in a tenant. A member who was invited by e-mail has no subject until the
-- first sign-in. The empty tenant has the operators.
CREATE TABLE members (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	email TEXT NOT NULL,
	issuer TEXT NOT NULL,
	subject TEXT NOT NULL,
	name TEXT NOT NULL,
	role TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	joined_ms BIGINT NOT NULL,
	PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX members_subject ON members (issuer, subject, tenant) WHERE subject <> '';
CREATE UNIQUE INDEX members_email ON members (email, tenant) WHERE email <> '';

-- Groups of the identity provider whose users have a role in a tenant.
CREATE TABLE group_roles (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	tenant TEXT NOT NULL,
	role TEXT NOT NULL,
	created_ms BIGINT NOT NULL
);
CREATE UNIQUE INDEX group_roles_name ON group_roles (tenant, name);

-- The audit logs of the tenants and, under the empty tenant, of the operator. The rows of a tenant
-- are numbered without gaps. Rows are only added, and deleted when they are old.
CREATE TABLE audit_log (
	tenant TEXT NOT NULL,
	seq BIGINT NOT NULL,
	at_ms BIGINT NOT NULL,
	actor TEXT NOT NULL,
	actor_name TEXT NOT NULL,
	address TEXT NOT NULL,
	request TEXT NOT NULL,
	action TEXT NOT NULL,
	target TEXT NOT NULL,
	detail TEXT NOT NULL,
	PRIMARY KEY (tenant, seq)
);
CREATE INDEX audit_log_at ON audit_log (at_ms);
CREATE INDEX audit_log_actor ON audit_log (tenant, actor, seq);
CREATE INDEX audit_log_action ON audit_log (tenant, action, seq);
CREATE INDEX audit_log_target ON audit_log (tenant, target, seq);
