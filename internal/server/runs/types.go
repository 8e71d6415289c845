package runs

import (
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

type (
	runPath struct {
		Run string `path:"run" pattern:"^run_[A-Za-z0-9_-]{1,80}$" doc:"The run's id."`
	}
	runOutput    struct{ Body *api.Run }
	listRunInput struct {
		Agent  string    `query:"agent" maxLength:"63" doc:"Only runs of this agent."`
		Status string    `query:"status" enum:"running,paused,finished,quarantined" doc:"Only runs with this status."`
		Before time.Time `query:"before" deprecated:"true" doc:"Only runs created before this time. Deprecated: use cursor. Pages skip runs created in the same millisecond as the last run of the previous page."`
		Limit  int       `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"Maximum number of runs. A page of large runs has fewer."`
		httpapi.CursorInput
	}
	listRunOutput struct {
		Body struct {
			Runs []*api.Run `json:"runs" nullable:"false"`
			httpapi.ListOutput
		}
	}
)
