package persist

import (
	"context"
	"sync"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// endBytes is the number of journal bytes that the hooks at the end of a run may write beyond the
// run's limit.
const endBytes = 1 << 20

// A size counts the bytes that a run has written to its journal.
type size struct {
	mu   sync.Mutex
	max  int64 // unlimited if zero
	used int64
	full bool // the run was canceled because of its limit or of a quota

	// spent is canceled when the hooks at the run's end may write no more.
	spent context.Context
	stop  context.CancelFunc
}

func newSize(limit, used int64) *size {
	s := &size{max: limit, used: used}
	s.spent, s.stop = context.WithCancel(context.Background())
	return s
}

// add counts n bytes of a commit. It cancels the run, once, if the total exceeds the run's limit or
// if quota is not nil. quota is the journal's report of a quota that is used up.
func (s *size) add(n int64, quota *journal.FullError, cancel context.CancelCauseFunc) {
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

// AfterSpent calls fn when the run has written more than endBytes beyond its limit. stop undoes the
// registration of fn.
func (w *Writer) AfterSpent(fn func()) (stop func() bool) { return context.AfterFunc(w.size.spent, fn) }
