package ending

import "github.com/agent-runner/agent-runner/abi"

// An InterruptedError pauses the run. It ends this pass through the phase. When it is
// answered, another pass resumes there.
type InterruptedError struct{ Pending abi.Pending }

// Error returns the reason.
func (i *InterruptedError) Error() string { return "interrupted: " + i.Pending.Reason }
