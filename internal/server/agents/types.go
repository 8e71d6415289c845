package agents

import (
	"time"

	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// An Agent is a version of an agent in the API.
type Agent struct {
	Name     string    `json:"name"`
	Version  int64     `json:"version" doc:"The version number, starting at 1. Each change creates a new version."`
	Created  time.Time `json:"created"`
	Modules  []Entry   `json:"modules" nullable:"false" doc:"The modules that the agent runs with. Their names were resolved to digests when this version was stored."`
	Warnings []string  `json:"warnings" nullable:"false" doc:"Warnings for users of the agent."`
	YAML     string    `json:"yaml" doc:"The agent.yaml file."`
}

// An Entry is a middleware of an agent and its module.
type Entry struct {
	At     string `json:"at" doc:"The module's location in the file, such as middlewares[0]."`
	Name   string `json:"name" doc:"The entry's name."`
	Module string `json:"module" doc:"The module as the file names it."`
	Digest string `json:"digest"`
}

type (
	// AgentPath is embedded in inputs. It has the path parameter agent.
	AgentPath struct {
		Agent string `path:"agent" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" doc:"The agent's name."`
	}
	getAgentInput struct {
		AgentPath
		Version int64 `query:"version" minimum:"1" doc:"The version. Default: the newest."`
	}
	agentOutput     struct{ Body *Agent }
	listAgentsInput struct {
		After string `query:"after" maxLength:"63" deprecated:"true" doc:"Only agents whose names sort after this one. Deprecated: use cursor."`
		httpapi.ListInput
	}
	listAgentsOutput struct {
		Body struct {
			Agents []*Agent `json:"agents" nullable:"false"`
			httpapi.ListOutput
		}
	}
)
