package api

import "time"

// A StartRollout is a request to move an alias to another version of an agent, step by step.
type StartRollout struct {
	Alias   string `json:"alias,omitempty" pattern:"^([a-z0-9][a-z0-9._-]{0,62})?$" doc:"The alias to move. Default: stable."`
	Version int64  `json:"version" minimum:"1" doc:"The version that the alias gets: the canary."`

	By       string          `json:"by,omitempty" enum:"run,thread" doc:"Whether each run is assigned to a version, or each thread, which keeps its version as long as the rollout is active. Default: run."`
	Steps    []RolloutStep   `json:"steps,omitempty" maxItems:"20" doc:"The steps. Default: 10, 50 and 100 percent, 10 minutes each. After the last step, a rollout at 100 percent is promoted."`
	Rollback RolloutRollback `json:"rollback,omitzero" doc:"When the rollout is rolled back. Each figure has a default."`
}

// A RolloutPlan determines how a rollout assigns runs to versions, its steps, and when it is rolled
// back.
type RolloutPlan struct {
	By       string          `json:"by,omitempty" enum:"run,thread" doc:"Whether each run is assigned to a version, or each thread, which keeps its version as long as the rollout is active. Default: run."`
	Steps    []RolloutStep   `json:"steps,omitempty" maxItems:"20" doc:"The steps. Default: 10, 50 and 100 percent, 10 minutes each. After the last step, a rollout at 100 percent is promoted."`
	Rollback RolloutRollback `json:"rollback,omitzero"`
}

// A RolloutStep is a percentage of runs or threads that get the canary.
type RolloutStep struct {
	Percent int64 `json:"percent" minimum:"1" maximum:"100"`
	Seconds int64 `json:"seconds" minimum:"0" maximum:"2592000" doc:"The minimum duration of the step in seconds. A step also lasts until min_runs finished runs of the canary are compared."`
}

// A RolloutRollback says when a rollout is rolled back. The canary is compared with the stable version.
type RolloutRollback struct {
	WindowSeconds int64         `json:"window_seconds,omitempty" minimum:"0" maximum:"604800" doc:"Runs that finished in this time are compared. Default: 3600."`
	MinRuns       int64         `json:"min_runs,omitempty" minimum:"0" maximum:"5000" doc:"Finished runs of each version that a comparison needs. Default: 20."`
	Off           []string      `json:"off,omitempty" maxItems:"5" enum:"faults,denials,errors,latency,cost" doc:"Figures that are not compared."`
	Increase      RolloutLimits `json:"increase,omitzero" doc:"Increases that are tolerated."`
}

// RolloutLimits holds the tolerated increases. A larger increase causes a rollback if it is
// statistically significant.
type RolloutLimits struct {
	Faults  float64 `json:"faults,omitempty" minimum:"0" maximum:"1" doc:"Of the share of runs with a fault. Default: 0.02."`
	Denials float64 `json:"denials,omitempty" minimum:"0" maximum:"1" doc:"Of the share of runs with a denied tool call. Default: 0.05."`
	Errors  float64 `json:"errors,omitempty" minimum:"0" maximum:"1" doc:"Of the share of runs that end with an error. Default: 0.02."`
	Latency float64 `json:"latency,omitempty" minimum:"0" maximum:"100" doc:"Of the 95th percentile of the time of runs, without pauses, as a fraction of the stable version's. Default: 0.5."`
	Cost    float64 `json:"cost,omitempty" minimum:"0" maximum:"100" doc:"Of the mean cost of a run, as a fraction of the stable version's. Costs are tokens if a model of a compared run has no price. Default: 0.5."`
}

// A Rollout moves an alias to another version of an agent, step by step.
type Rollout struct {
	ID       string         `json:"id"`
	Agent    string         `json:"agent"`
	Alias    string         `json:"alias"`
	Stable   int64          `json:"stable" doc:"The version of the alias when the rollout began."`
	Canary   int64          `json:"canary" doc:"The version that the alias gets."`
	Status   string         `json:"status" enum:"running,paused,promoted,aborted,rolled_back" doc:"The last three are final. A paused rollout keeps its percentage, and can be rolled back."`
	Reason   string         `json:"reason,omitempty" doc:"Why the rollout has its status."`
	Plan     RolloutPlan    `json:"plan"`
	Step     int64          `json:"step" doc:"The current step, starting at 1."`
	Percent  int64          `json:"percent" doc:"The percentage of runs or threads that get the canary."`
	Since    time.Time      `json:"since" doc:"When the step began. Pauses move it."`
	Figures  RolloutFigures `json:"figures" doc:"The figures that are compared: the current ones, or those when the rollout ended."`
	Currency string         `json:"currency,omitempty" doc:"The currency of costs, such as USD. Absent if the operator has set no prices."`
	By       string         `json:"by" doc:"Who started the rollout."`
	Created  time.Time      `json:"created"`
	Updated  time.Time      `json:"updated"`
	Ended    time.Time      `json:"ended,omitzero"`
}

// RolloutFigures holds the figures of the stable version and of the canary.
type RolloutFigures struct {
	Stable ArmFigures `json:"stable"`
	Canary ArmFigures `json:"canary"`
}

// ArmFigures holds the figures of the finished runs of one version. Canceled runs do not count.
type ArmFigures struct {
	Runs    int64   `json:"runs"`
	Faults  float64 `json:"faults" doc:"The share of runs with a fault."`
	Denials float64 `json:"denials" doc:"The share of runs with a denied tool call."`
	Errors  float64 `json:"errors" doc:"The share of runs that ended with an error."`
	P95MS   int64   `json:"p95_ms" doc:"The 95th percentile of the time of runs in milliseconds, without pauses."`
	Tokens  float64 `json:"tokens" doc:"The mean number of tokens of a run."`
	Cost    float64 `json:"cost,omitempty" doc:"The mean cost of a run in the currency, by the operator's prices. Absent if a compared run has no price: then tokens are compared."`
}

// RolloutHistory holds the figures of a rollout over time.
type RolloutHistory struct {
	BucketSeconds int64          `json:"bucket_seconds"`
	Points        []RolloutPoint `json:"points" nullable:"false" doc:"At most 200, the oldest first."`
}

// A RolloutPoint holds the figures of the runs that finished in one period.
type RolloutPoint struct {
	Time   time.Time  `json:"time" doc:"The beginning of the period."`
	Stable ArmFigures `json:"stable"`
	Canary ArmFigures `json:"canary"`
}
