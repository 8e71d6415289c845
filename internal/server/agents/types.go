package agents

import (
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

type (
	// AgentPath is embedded in inputs. It has the path parameter "agent".
	AgentPath struct {
		Agent string `path:"agent" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" doc:"The agent's name."`
	}
	// AgentRefPath is embedded in inputs. It has the path parameter "agent", which may name a version.
	AgentRefPath struct {
		Agent string `path:"agent" pattern:"^[a-z0-9][a-z0-9._-]{0,62}(@[a-z0-9][a-z0-9._-]{0,62})?$" doc:"The agent's name, agent@version or agent@alias."`
	}
	getAgentInput struct {
		AgentRefPath
		Version int64 `query:"version" minimum:"1" doc:"The version. Default: the newest."`
	}
	agentOutput     struct{ Body *api.Agent }
	listAgentsInput struct {
		httpapi.NameInput
		After string `query:"after" maxLength:"63" deprecated:"true" doc:"Only agents whose names sort after this one. Deprecated: use cursor."`
		httpapi.ListInput
	}
	listAgentsOutput struct {
		Body struct {
			Agents []*api.Agent `json:"agents" nullable:"false"`
			httpapi.ListOutput
		}
	}
)
