package api

import "time"

// A Series holds counters of a tenant's finished runs over time, for charts.
type Series struct {
	Bucket     string        `json:"bucket" enum:"hour,day" doc:"The length of a bucket. Buckets start at full hours or days (UTC)."`
	From       time.Time     `json:"from" doc:"The start of the first bucket."`
	To         time.Time     `json:"to" doc:"The end of the range."`
	By         string        `json:"by" enum:"all,agent,version,module,model" doc:"What the groups are."`
	Currency   string        `json:"currency,omitempty" doc:"The currency of costs, such as USD. Absent if the operator has set no prices."`
	Groups     []SeriesGroup `json:"groups" nullable:"false" doc:"The groups, those with the most runs first."`
	MoreGroups int           `json:"more_groups" doc:"Number of groups that were left out because of groups."`
}

// A SeriesGroup holds the counters of a group of runs.
type SeriesGroup struct {
	Agent   string        `json:"agent,omitempty" doc:"The agent, if the groups are agents or their versions."`
	Version int64         `json:"version,omitempty" doc:"The agent's version, if the groups are versions."`
	Module  string        `json:"module,omitempty" doc:"The module's digest, if the groups are modules. Modules of the operator are not counted."`
	Model   string        `json:"model,omitempty" doc:"The model, if the groups are models."`
	Total   SeriesCounts  `json:"total" doc:"The counters of all buckets together."`
	Points  []SeriesPoint `json:"points" nullable:"false" doc:"The buckets in which runs finished, by time."`
}

// A SeriesPoint holds the counters of one bucket.
type SeriesPoint struct {
	Start time.Time `json:"start" doc:"The start of the bucket."`
	SeriesCounts
}

// SeriesCounts holds counters of finished runs. All that a run used counts in the bucket in which the
// run finished.
type SeriesCounts struct {
	Runs             int64   `json:"runs" doc:"Number of runs. For a model, the runs that used it."`
	Failed           int64   `json:"failed" doc:"Number of runs with the finish reason error."`
	Canceled         int64   `json:"canceled" doc:"Number of runs that were canceled."`
	LatencyP50MS     float64 `json:"latency_p50_ms" doc:"Half of the runs were in progress for at most this time, without pauses, in milliseconds. Estimated, within 19 percent. 0 for models."`
	LatencyP95MS     float64 `json:"latency_p95_ms" doc:"95 percent of the runs were in progress for at most this time, in milliseconds."`
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	Cost             float64 `json:"cost" doc:"What the tokens cost, in units of the currency."`
	Faults           int64   `json:"faults" doc:"Number of faults of modules. For a module, its own faults."`
	Denials          int64   `json:"denials" doc:"Number of denied tool calls. For a module, those that it denied."`
	Calls            int64   `json:"calls" doc:"Number of hook calls. For a module, its own."`
	HookMS           int64   `json:"hook_ms" doc:"Time in hooks, without the calls that they wrap, in milliseconds. For a module, in its own hooks."`
}
