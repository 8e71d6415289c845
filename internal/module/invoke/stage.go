package invoke

import (
	"errors"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// Stage returns the stage of the invocation at which err occurred.
func (inv *Invocation) Stage(err error) ending.Stage {
	var guest *sandbox.FaultError
	var answer *AnswerError
	switch {
	case inv.Hook == contract.HookDescribe:
		return ending.StageLoad
	case inv.Hook == contract.HookConfigure:
		return ending.StageConfigure
	case !inv.Entered:
		return ending.StageInput
	case errors.As(err, &answer):
		return ending.StageAnswer
	case inv.inside, errors.As(err, &guest) && guest.Kind == sandbox.FaultBounds: // only imports report bounds faults
		return ending.StageHostCall
	default:
		return ending.StageHook
	}
}
