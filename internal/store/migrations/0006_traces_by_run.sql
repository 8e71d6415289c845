-- Timelines are looked for by their run, which the primary key finds. SQLite took this
-- index in its place, and looked at all timelines of the tenant for each run.
DROP INDEX IF EXISTS run_traces_tenant;
