package store

import "time"

// Evidence describes why a run is quarantined.
type Evidence struct {
	Run     string
	Tenant  string
	Node    string // the machine of the run's process
	Created time.Time
	Reason  string
	Held    int64 // bytes that the run held
	Share   int64 // bytes that the run was allowed to hold
	Used    int64 // bytes that the process used
	Limit   int64 // bytes that the process was allowed to use
	Memory  bool  // whether the process used nearly all of its memory when it ended
}
