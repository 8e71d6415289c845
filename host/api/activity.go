package api

// A RunActivity is a snapshot of the work of the modules of a run in progress. Its counters start at 0
// when the run is started, resumed or taken over.
type RunActivity struct {
	Run     string           `json:"run"`
	TimeMS  int64            `json:"time_ms" doc:"Unix time in milliseconds, as of the server."`
	Modules []ModuleActivity `json:"modules" nullable:"false" doc:"The modules that were called, in the order of their first calls; at most 64."`
}

// A ModuleActivity describes the last hook of an entry of a run, and the resources that the entry has
// used.
type ModuleActivity struct {
	Entry       string `json:"entry"`
	Agent       string `json:"agent,omitempty" doc:"The agent whose chain has the entry."`
	Hook        string `json:"hook" doc:"The hook that was called last."`
	Running     int    `json:"running" doc:"The number of calls in progress."`
	SinceMS     int64  `json:"since_ms" doc:"When the last call began: Unix time in milliseconds."`
	Calls       int64  `json:"calls" doc:"The number of calls that have ended."`
	Failed      int64  `json:"failed" doc:"Calls that answered with an error."`
	Faults      int64  `json:"faults"`
	OwnUS       int64  `json:"own_us" doc:"Time in hooks without the calls that they wrap, in microseconds."`
	LastUS      int64  `json:"last_us" doc:"The same of the call that ended last."`
	Fuel        int64  `json:"fuel"`
	MemoryBytes int64  `json:"memory_bytes" doc:"The largest memory of an instance at the end of a call."`
}
