package ending

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
)

// A StoppedError ends the run because a middleware stopped it.
type StoppedError struct {
	Entry  string   // the entry that stopped the run
	Hook   abi.Hook // the hook whose answer stopped the run
	Reason string   // why the run was stopped, for people; at most 8 KiB
	Code   string   // code for programs, defined by the entry; at most contract.MaxName bytes
}

// Error returns the entry and the reason.
func (s *StoppedError) Error() string {
	if s.Reason == "" {
		return s.Entry + " stopped the run"
	}
	return fmt.Sprintf("%s stopped the run: %s", s.Entry, s.Reason)
}

// MaxReason is the maximum length of the reason of a stop or an interrupt, in bytes.
const MaxReason = 8 << 10
