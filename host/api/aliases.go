package api

import "time"

// An Alias is a name of a version of an agent. A run of agent@alias uses that version.
type Alias struct {
	Alias   string    `json:"alias"`
	Version int64     `json:"version"`
	Updated time.Time `json:"updated"`
}

// An AliasMove is a change of an alias.
type AliasMove struct {
	Alias   string    `json:"alias"`
	From    int64     `json:"from,omitempty" doc:"The version before. Absent if the alias did not exist."`
	To      int64     `json:"to,omitempty" doc:"The version since. Absent if the alias was deleted."`
	By      string    `json:"by" doc:"Who moved the alias: a key, a person or a rollout."`
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created"`
}
