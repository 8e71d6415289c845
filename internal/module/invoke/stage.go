package invoke

import (
	"errors"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// Stage says when in the visit err came up.
func (inv *Invocation) Stage(err error) chain.Stage {
	var guest *sandbox.Fault
	var answer *AnswerError
	switch {
	case inv.Hook == abi.HookDescribe:
		return chain.StageLoad
	case inv.Hook == abi.HookConfigure:
		return chain.StageConfigure
	case !inv.Entered:
		return chain.StageInput
	case errors.As(err, &answer):
		return chain.StageAnswer
	case inv.inside, errors.As(err, &guest) && guest.Kind == sandbox.FaultBounds: // which only imports tell
		return chain.StageHostCall
	default:
		return chain.StageHook
	}
}
