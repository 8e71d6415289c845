package agent

import (
	"context"
	"sync"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// endBytes is how much the hooks at the end of a run may add beyond its limit.
const endBytes = 1 << 20

// A journalSize counts the bytes that a run wrote to its journal.
type journalSize struct {
	mu   sync.Mutex
	max  int64 // unlimited if zero
	used int64
	full bool // the run was told to end

	// spent ends when the hooks at the run's end may write no more.
	spent context.Context
	stop  context.CancelFunc
}

func newJournalSize(max int64) *journalSize {
	s := &journalSize{max: max}
	s.spent, s.stop = context.WithCancel(context.Background())
	return s
}

// add counts bytes that were committed. It cancels the run if they exceed its limit,
// or if the journal reports that a quota is used up.
func (s *journalSize) add(n int64, quota *journal.FullError, cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
	if s.max > 0 && s.used > s.max+endBytes {
		s.stop()
	}
	if s.full {
		return
	}
	switch {
	case quota != nil:
		s.full = true
		if s.max == 0 || s.max > s.used {
			s.max = s.used
		}
		cancel(quota)
	case s.max > 0 && s.used > s.max:
		s.full = true
		cancel(&journal.FullError{Limit: journal.LimitBytes, Max: s.max, Used: s.used})
	}
}
