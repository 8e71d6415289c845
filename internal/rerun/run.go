package rerun

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
)

// A Run is a stored run, with everything that a replay needs.
type Run struct {
	Info     *journal.RunInfo
	History  *runlog.History
	Events   []abi.Event
	Recorded *runlog.Recorded
}

// A NotReplayableError says why a stored run cannot be replayed.
type NotReplayableError struct {
	Run    string
	Reason string
}

// Error implements error.
func (e *NotReplayableError) Error() string { return fmt.Sprintf("replay run %s: %s", e.Run, e.Reason) }

// readEvents is the number of events that are read at once.
const readEvents = 10_000

// Read reads a run from a journal. It fails with [journal.ErrNoRun] if there is none, and with a
// [*NotReplayableError] if its recording is not complete.
func Read(ctx context.Context, j journal.Journal, id string) (*Run, error) {
	stored, err := j.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &Run{Info: &stored.RunInfo}
	if r.History, err = runlog.ReadHistory(stored); err != nil {
		return nil, err
	}
	for after := int64(0); ; after = r.Events[len(r.Events)-1].Seq {
		events, err := j.Events(ctx, id, after, readEvents)
		if err != nil {
			return nil, err
		}
		if r.Events = append(r.Events, events...); len(events) == 0 {
			break
		}
	}
	if r.Recorded, err = runlog.ReadRecorded(stored.Log); err != nil {
		return nil, err
	}
	return r, r.check()
}

// check returns an error if the recording is not complete: if answers were erased, or if the caller
// of the run added middlewares, which are not stored.
func (r *Run) check() error {
	for _, call := range r.Recorded.Calls {
		if call.Erased {
			return r.notReplayable("its recorded answers were erased, because modules changed or removed text; " +
				"to replay such runs, store them with --keep-originals")
		}
	}
	if len(r.History.State.With) > 0 {
		return r.notReplayable("its caller added tools or middlewares, which are not stored")
	}
	return nil
}

func (r *Run) notReplayable(format string, args ...any) error {
	return &NotReplayableError{r.Info.ID, fmt.Sprintf(format, args...)}
}

// CheckModules returns a [*NotReplayableError] if the modules of an agent differ from those that the run
// began with.
func (r *Run) CheckModules(a *agent.Agent) error {
	have := agent.Pins(a)
	differ := func(a, b journal.Pin) bool { return a.Entry != b.Entry || a.Ring != b.Ring || a.Digest != b.Digest }
	for i, want := range r.Info.Modules {
		if i >= len(have) || differ(have[i], want) {
			return r.notReplayable("its module %s (sha256:%s) is not stored, and its file has changed",
				want.Entry, safetext.Clip(want.Digest, 12))
		}
	}
	if len(have) > len(r.Info.Modules) {
		return r.notReplayable("its agent has more modules than it had")
	}
	return nil
}
