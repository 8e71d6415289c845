-- The kernel's count of processes that it killed for want of memory, by cgroup. The next
-- process in a cgroup finds out by it whether the one before was killed so.
ALTER TABLE processes ADD COLUMN cgroup TEXT NOT NULL DEFAULT '';
ALTER TABLE processes ADD COLUMN oom_kills BIGINT NOT NULL DEFAULT 0;
ALTER TABLE processes ADD COLUMN oom_killed BIGINT NOT NULL DEFAULT 0;

-- Runs that are to end, which their process looks for.
CREATE INDEX runs_canceled ON runs (owner) WHERE cancel = 1 AND status = 'running';
