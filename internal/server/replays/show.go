package replays

import (
	"encoding/json"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/store"
)

// The outcomes of a replayed run.
const (
	same      = "same"
	different = "different"
	diverged  = "diverged"
	failed    = "failed"
	skipped   = "skipped"
)

// show returns the API's form of a replay.
func show(r *store.Replay) *api.Replay {
	out := &api.Replay{
		ID:        r.ID,
		Agent:     r.Agent,
		Status:    string(r.Status),
		Total:     r.Total,
		Same:      r.Counts[same],
		Different: r.Counts[different],
		Diverged:  r.Counts[diverged],
		Failed:    r.Counts[failed],
		Skipped:   r.Counts[skipped],
		By:        r.By,
		Created:   r.Created.UTC(),
		Updated:   r.Updated.UTC(),
	}
	out.Done = out.Same + out.Different + out.Diverged + out.Failed + out.Skipped
	if !r.Ended.IsZero() {
		out.Ended = r.Ended.UTC()
	}
	_ = json.Unmarshal(r.Candidate, &out.Candidate) // start stored it
	return out
}

// showRun returns the API's form of a replayed run.
func showRun(r *store.ReplayRun) (*api.ReplayedRun, error) {
	out := &api.ReplayedRun{}
	if len(r.Body) > 0 {
		if err := json.Unmarshal(r.Body, out); err != nil {
			return nil, err
		}
	}
	out.Number, out.Run, out.Outcome = r.Number, r.Run, r.Outcome
	return out, nil
}
