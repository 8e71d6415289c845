package api

// A Node is one of the servers that share a database.
type Node struct {
	Owner    string `json:"owner" doc:"The server's name in the runs that it executes."`
	Node     string `json:"node" doc:"The name of its machine."`
	Version  string `json:"version,omitempty"`
	Runs     int    `json:"runs" doc:"Number of runs in progress there."`
	Draining bool   `json:"draining,omitempty" doc:"The server is shutting down."`
	Silent   bool   `json:"silent,omitempty" doc:"No heartbeat arrived for a second."`
	Self     bool   `json:"self,omitempty" doc:"The server that answers."`
	SeenMS   int64  `json:"seen_ms" doc:"Milliseconds since its last heartbeat."`
}
