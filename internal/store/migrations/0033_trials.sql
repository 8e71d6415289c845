-- 1 if the process executed nothing but the run. Table suspects has this for the last process only.
ALTER TABLE run_crashes ADD COLUMN alone BIGINT NOT NULL DEFAULT 0;

-- 1 if the process wrote a crash report, and no signal of another process was the cause.
ALTER TABLE processes ADD COLUMN reported BIGINT NOT NULL DEFAULT 0;
