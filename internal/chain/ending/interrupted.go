package ending

import "github.com/agent-runner/agent-runner/abi"

// An InterruptedError pauses the run and ends this pass through the phase. After the interrupt is
// answered, another pass resumes the phase.
type InterruptedError struct{ Pending abi.Pending }

// Error returns the reason.
func (i *InterruptedError) Error() string { return "interrupted: " + i.Pending.Reason }
