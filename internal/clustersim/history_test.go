package clustersim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// A history records what the servers did, and finds what they must not do.
type history struct {
	mu         sync.Mutex
	runs       map[string]*runHistory
	effects    map[string]int // calls of the tool, by their arguments
	violations []string
	waits      []time.Duration // from the death of a run's first server to the second claim
	taken      map[*server]int // the claims in waits, by server
	lost       int             // claims that failed because another server came first
}

// A runHistory has the claims of a run.
type runHistory struct {
	owners map[int64]*server // by epoch
	last   int64             // the highest epoch
}

func newHistory() *history {
	return &history{runs: map[string]*runHistory{}, effects: map[string]int{}, taken: map[*server]int{}}
}

func (h *history) violate(format string, args ...any) {
	h.violations = append(h.violations, fmt.Sprintf(format, args...))
}

// found returns the first ten violations, one a line, or an empty string.
func (h *history) found() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.violations[:min(len(h.violations), 10)], "\n")
}

// claimed records that a server has claimed a run.
func (h *history) claimed(run string, epoch int64, by *server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[run]
	if r == nil {
		r = &runHistory{owners: map[int64]*server{}}
		h.runs[run] = r
	}
	if other := r.owners[epoch]; other != nil {
		h.violate("run %s: %s and %s claimed epoch %d", run, other.name, by.name, epoch)
	}
	if before := r.owners[r.last]; before != nil {
		if died := before.diedAt(); !died.IsZero() && len(r.owners) == 1 {
			h.waits = append(h.waits, time.Since(died))
			h.taken[by]++
		}
	}
	r.owners[epoch] = by
	r.last = max(r.last, epoch)
}

// epoch returns the highest epoch with which a run was claimed.
func (h *history) epoch(run string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.runs[run]; r != nil {
		return r.last
	}
	return 0
}

// called records an effect of the tool.
func (h *history) called(arguments string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.effects[arguments]++; h.effects[arguments] > 1 {
		h.violate("the call %s had %d effects", arguments, h.effects[arguments])
	}
}

// A witness is the journal of a server. It reports claims and commits to the history.
type witness struct {
	journal.Journal
	server  *server
	history *history
}

// Create implements [journal.Journal].
func (w *witness) Create(ctx context.Context, c *journal.Creation) error {
	err := w.Journal.Create(ctx, c)
	if err == nil {
		w.history.claimed(c.ID, 1, w.server)
	}
	return err
}

// Claim implements [journal.Journal].
func (w *witness) Claim(ctx context.Context, c *journal.Claim) (*journal.StoredRun, error) {
	stored, err := w.Journal.Claim(ctx, c)
	if err == nil {
		w.history.claimed(c.Run, stored.Epoch, w.server)
	} else {
		w.history.mu.Lock()
		w.history.lost++
		w.history.mu.Unlock()
	}
	return stored, err
}

// Commit implements [journal.Journal].
func (w *witness) Commit(ctx context.Context, c *journal.Commit) error {
	before := w.history.epoch(c.Run)
	err := w.Journal.Commit(ctx, c)
	if err == nil && c.Epoch < before {
		w.history.mu.Lock()
		w.history.violate("run %s: %s wrote with epoch %d after a claim of epoch %d", c.Run, w.server.name, c.Epoch, before)
		w.history.mu.Unlock()
	}
	return err
}
