package ending

import "github.com/agent-runner/agent-runner/abi"

// An Interrupted pauses the run. It ends this pass through the phase; once it
// is answered, another pass goes on from there.
type InterruptedError struct{ Pending abi.Pending }

// Error gives the reason.
func (i *InterruptedError) Error() string { return "interrupted: " + i.Pending.Reason }
