-- The results of replays of a run, which are erased with the run.
CREATE INDEX replay_runs_run ON replay_runs (run);
