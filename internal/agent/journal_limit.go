package agent

import (
	"context"
	"fmt"
	"sync"
)

// DefaultMaxJournalBytes caps what a run writes to its journal where JournalOptions
// say nothing.
const DefaultMaxJournalBytes = 64 << 20

const (
	// journalRowBytes is the overhead that is counted for each row of a journal.
	journalRowBytes = 128
	// endBytes is how much the hooks at the end of a run may add beyond its limit.
	endBytes = 1 << 20
)

// Bytes is what the new run counts against the limits and quotas of journal bytes.
func (r *NewRun) Bytes() int64 {
	n := 2*journalRowBytes + len(r.Log) + len(r.Spec) + len(r.Title) + len(r.ID) + len(r.Agent)
	for _, p := range r.Modules {
		n += len(p.Entry) + len(p.Ring) + len(p.Digest)
	}
	return int64(n)
}

// Bytes is what the commit counts against the limits and quotas of journal bytes.
func (c *Commit) Bytes() int64 {
	n := len(c.Log) + len(c.Events)
	if c.Log != nil {
		n += journalRowBytes
	}
	if c.Last >= c.First {
		n += journalRowBytes
	}
	return int64(n)
}

// A JournalFullError ends a run that wrote as much to its journal as it may.
type JournalFullError struct {
	// Limit is LimitJournalBytes, or the name of the tenant's quota.
	Limit string
	Max   int64
	Used  int64
	Quota bool // the limit is a quota of the run's tenant
}

// Error names the limit, and says what to do.
func (e *JournalFullError) Error() string {
	if e.Quota {
		return fmt.Sprintf("the run ended because the tenant's quota %s is used up: %d of %d bytes; delete runs that are not needed, or ask the operator for more", e.Limit, e.Used, e.Max)
	}
	return fmt.Sprintf("the run wrote %d bytes to its journal, and its limit is %d; see in its events which module writes so much, or raise limits.journal_bytes", e.Used, e.Max)
}

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

func newJournalSize(o *JournalOptions, r *run) *journalSize {
	s := &journalSize{max: o.MaxBytes}
	if l := r.root.Limits.JournalBytes; l > 0 && (s.max == 0 || l < s.max) {
		s.max = l
	}
	s.spent, s.stop = context.WithCancel(context.Background())
	return s
}

// add counts bytes that were committed. It cancels the run if they exceed its limit,
// or if the journal reports that a quota is used up.
func (s *journalSize) add(n int64, quota *JournalFullError, cancel context.CancelCauseFunc) {
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
		cancel(&JournalFullError{Limit: LimitJournalBytes, Max: s.max, Used: s.used})
	}
}

// boundEnd lets the hooks at the run's end call cancel once they have written endBytes
// more than the run may, and returns a function that releases what that takes.
func (r *run) boundEnd(cancel context.CancelFunc) (release func() bool) {
	k := r.keeper
	for at := r.parent; at != nil; at = at.parent {
		if at.keeper != nil {
			k = at.keeper
		}
	}
	if k == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(k.size.spent, cancel)
}
