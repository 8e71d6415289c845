package runs

import (
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

type (
	runPath struct {
		Run string `path:"run" pattern:"^run_[A-Za-z0-9_-]{1,80}$" doc:"The run's id."`
	}
	runOutput     struct{ Body *api.Run }
	listRunOutput struct {
		Body struct {
			Runs []*api.Run `json:"runs" nullable:"false"`
			httpapi.ListOutput
		}
	}
)
