package store

import "time"

// Evidence describes why a run is quarantined.
type Evidence struct {
	Run     string
	Tenant  string
	Node    string // the machine of its process
	Created time.Time
	Reason  string
	Held    int64 // bytes that the run held
	Share   int64 // bytes that it may hold
	Used    int64 // bytes that the process used
	Limit   int64 // bytes that the process may use
	Memory  bool  // the process used nearly all of its memory when it ended
}
