package modules

import (
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

type (
	// ModulePath is embedded in inputs. It has the path parameter "module".
	ModulePath struct {
		Module string `path:"module" pattern:"^[A-Za-z0-9][A-Za-z0-9.@:+_-]{0,140}$" doc:"A digest, a name, or name@version. A name without version is its newest version."`
	}
	moduleOutput     struct{ Body *api.Module }
	listModulesInput struct {
		httpapi.ListInput
		httpapi.NameInput
	}
	listModulesOutput struct {
		Body struct {
			Modules []*api.Module `json:"modules" nullable:"false"`
			httpapi.ListOutput
		}
	}
)
