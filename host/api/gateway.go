package api

import "time"

// A Gateway describes one version of a tenant's gateway.
type Gateway struct {
	Version  int64     `json:"version" doc:"The version number, starting at 1. Each change creates a new version."`
	Created  time.Time `json:"created"`
	Modules  []Entry   `json:"modules" nullable:"false" doc:"The modules of the routes. Their names were resolved to digests when this version was stored."`
	Warnings []string  `json:"warnings" nullable:"false" doc:"Warnings for users of the gateway."`
	YAML     string    `json:"yaml" doc:"The gateway.yaml file."`
}
