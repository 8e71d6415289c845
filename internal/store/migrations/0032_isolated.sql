-- 1 if the process executed nothing but the suspect.
ALTER TABLE suspects ADD COLUMN alone BIGINT NOT NULL DEFAULT 0;

-- The process whose end is the evidence against the run; empty if the process was short of memory. The
-- evidence is void if this process sends another heartbeat.
ALTER TABLE quarantine ADD COLUMN owner TEXT NOT NULL DEFAULT '';
