package composition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// A memoryJournal stores one run in memory. While dead is set, it rejects writes, as if the process
// had died.
type memoryJournal struct {
	mu     sync.Mutex
	dead   bool
	stored *journal.StoredRun
	events []abi.Event
}

var errDied = errors.New("the process died")

// die simulates the death of the process: later writes fail.
func (j *memoryJournal) die() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dead = true
}

// revive simulates the start of another process: writes succeed again.
func (j *memoryJournal) revive() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dead = false
}

// Create implements [journal.Journal].
func (j *memoryJournal) Create(_ context.Context, r *journal.Creation) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		return errDied
	}
	j.stored = &journal.StoredRun{
		RunInfo: journal.RunInfo{ID: r.ID, Agent: r.Agent, Epoch: 1, Owner: r.Owner, Modules: r.Modules, Entries: 1,
			Progress: journal.Progress{Status: journal.StatusRunning}},
		Log: [][]byte{r.Log},
	}
	return nil
}

// Load implements [journal.Journal].
func (j *memoryJournal) Load(context.Context, string) (*journal.StoredRun, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stored == nil {
		return nil, journal.ErrNoRun
	}
	stored := *j.stored
	stored.Log = slices.Clone(j.stored.Log)
	return &stored, nil
}

// Claim implements [journal.Journal].
func (j *memoryJournal) Claim(ctx context.Context, c *journal.Claim) (*journal.StoredRun, error) {
	j.mu.Lock()
	if c.Epoch != j.stored.Epoch {
		j.mu.Unlock()
		return nil, journal.ErrBusy
	}
	j.stored.Epoch++
	j.stored.Status = journal.StatusRunning
	j.mu.Unlock()
	return j.Load(ctx, c.Run)
}

// Commit implements [journal.Journal].
func (j *memoryJournal) Commit(_ context.Context, c *journal.Commit) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.dead:
		return errDied
	case c.Epoch != j.stored.Epoch:
		return journal.ErrFenced
	case c.Log != nil && c.Entry != int64(len(j.stored.Log))+1:
		return fmt.Errorf("entry %d of the log behind %d", c.Entry, len(j.stored.Log))
	case len(c.Events) > 0 && c.First != j.stored.LastSeq+1:
		return fmt.Errorf("event %d behind %d", c.First, j.stored.LastSeq)
	}
	for line := range bytes.Lines(c.Events) {
		var e abi.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		j.events = append(j.events, e)
	}
	if c.Log != nil {
		j.stored.Log = append(j.stored.Log, bytes.Clone(c.Log))
		j.stored.Entries = c.Entry
	}
	j.stored.LastSeq, j.stored.Updated = c.Last, time.Now()
	if c.Progress != nil {
		j.stored.Progress = *c.Progress
	}
	return nil
}

// Events implements [journal.Journal].
func (j *memoryJournal) Events(_ context.Context, _ string, after int64, _ int) ([]abi.Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events[min(int(after), len(j.events)):]), nil
}

// Renew implements [journal.Journal].
func (j *memoryJournal) Renew(context.Context, string, int64, time.Duration) (bool, error) {
	return false, nil
}

// committed returns a copy of the stored events.
func (j *memoryJournal) committed() []abi.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

// maxLives is a limit of the number of processes, above the number that any run needs.
const maxLives = 200

// playCrashing runs a composition in a series of simulated processes. A process ends when the
// number of hooks that all processes have started reaches at, 2*at and 3*at.
func playCrashing(ctx context.Context, c *Composition, at int) (*seen, error) {
	j := &memoryJournal{}
	s := &seen{}
	hooks := 0
	s.onHook = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if hooks++; hooks%at == 0 && hooks < 4*at {
			j.die()
		}
	}
	a, err := s.agent(
		c,
		&stage{journal: &journal.Options{Journal: j, Owner: "here", Gone: func(string) bool { return true }}},
		rootName,
	)
	if err != nil {
		return nil, err
	}
	in := agent.Input{Messages: []abi.Message{abi.User(question)}, RunID: "run"}
	for range maxLives {
		var answers map[string]json.RawMessage
		events := a.Run(ctx, in)
		if stored, err := j.Load(ctx, "run"); err == nil {
			if len(stored.Pending) > 0 {
				s.pauses++
				answers = approvals(stored.Pending, true)
			}
			if events, err = a.Continue(ctx, "run", answers); err != nil {
				return nil, err
			}
		}
		for range events { // until the process ends, or the run ends or pauses
		}
		j.revive()
		if j.stored != nil && j.stored.Status == journal.StatusFinished {
			s.events = j.committed()
			return s, nil
		}
	}
	return nil, fmt.Errorf("the run did not end within %d processes", maxLives)
}
