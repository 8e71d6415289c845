-- What the tokens of each run of a rollout cost, in billionths of the operator's currency.
ALTER TABLE rollout_runs ADD COLUMN cost_nano BIGINT NOT NULL DEFAULT 0;
