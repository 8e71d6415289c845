package ending

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
)

// A Stop ends the run because a middleware said so.
type StoppedError struct {
	Entry  string   // the entry
	Hook   abi.Hook // the hook that answered with it
	Reason string   // for people, at most 8 KiB
	Code   string   // for programs, the entry's own, at most abi.MaxName bytes
}

// Error says who stopped the run, and why.
func (s *StoppedError) Error() string {
	if s.Reason == "" {
		return s.Entry + " stopped the run"
	}
	return fmt.Sprintf("%s stopped the run: %s", s.Entry, s.Reason)
}

// maxReason bounds the reason of a stop, in bytes.
const MaxReason = 8 << 10
