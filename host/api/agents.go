package api

import (
	"encoding/json"
	"time"
)

// An Agent describes one version of a tenant's agent.
type Agent struct {
	Name     string    `json:"name"`
	Version  int64     `json:"version" doc:"The version number, starting at 1. Each change creates a new version."`
	Created  time.Time `json:"created"`
	Modules  []Entry   `json:"modules" nullable:"false" doc:"The modules that the agent runs with. Their names were resolved to digests when this version was stored."`
	Warnings []string  `json:"warnings" nullable:"false" doc:"Warnings for users of the agent."`
	YAML     string    `json:"yaml" doc:"The agent.yaml file."`
	Aliases  []Alias   `json:"aliases,omitempty" doc:"The agent's aliases, of all its versions, ordered by name. Only in lists."`
}

// An AgentCheck is the result of checking an agent file without storing it.
type AgentCheck struct {
	Valid    bool            `json:"valid" doc:"Whether the file could be stored now."`
	Errors   []FieldError    `json:"errors" nullable:"false" doc:"What is wrong with the file. Locations are such as: line 3, column 5. Empty if it is valid."`
	Warnings []string        `json:"warnings" nullable:"false" doc:"Warnings for users of the agent."`
	Modules  []Entry         `json:"modules" nullable:"false" doc:"The modules that the names in the file mean now. Empty if the file is not valid."`
	File     json.RawMessage `json:"file,omitempty" doc:"The file as JSON. Absent if it is not valid YAML."`
}

// An Entry is a module of an agent, or of a route of a gateway.
type Entry struct {
	At     string `json:"at" doc:"The module's location in the file, such as middlewares[0]."`
	Name   string `json:"name" doc:"The entry's name."`
	Module string `json:"module" doc:"The module as the file names it."`
	Digest string `json:"digest"`
}
