-- The origins whose pages may use a tenant's tokens, such as https://app.example.com. An origin whose first
-- label is * stands for all of the others with one label in its place.
CREATE TABLE origins (
	tenant TEXT NOT NULL,
	origin TEXT NOT NULL,
	PRIMARY KEY (tenant, origin)
);
CREATE INDEX origins_origin ON origins (origin);
