package ending

import "github.com/agent-runner/agent-runner/abi"

// An InterruptedError pauses the run. The current pass through the phase ends. After a person has
// answered the interrupt, another pass repeats the phase.
type InterruptedError struct{ Pending abi.Pending }

// Error returns the reason.
func (i *InterruptedError) Error() string { return "interrupted: " + i.Pending.Reason }
