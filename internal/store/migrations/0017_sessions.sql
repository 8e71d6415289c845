-- Sessions of people who signed in. Of the token there is only its SHA-256. groups holds the
-- groups of the person that have a role somewhere, as a list in JSON.
CREATE TABLE sessions (
	hash BYTES PRIMARY KEY,
	issuer TEXT NOT NULL,
	subject TEXT NOT NULL,
	email TEXT NOT NULL,
	name TEXT NOT NULL,
	groups_json TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	used_ms BIGINT NOT NULL
);
CREATE INDEX sessions_person ON sessions (issuer, subject, created_ms);
CREATE INDEX sessions_expires ON sessions (expires_ms);

-- States of sign-ins that succeeded, until they expire. Each is used once.
CREATE TABLE used_states (
	hash BYTES PRIMARY KEY,
	expires_ms BIGINT NOT NULL
);
CREATE INDEX used_states_expires ON used_states (expires_ms);
