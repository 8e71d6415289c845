package runs

import (
	"context"
	"encoding/json"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

type historyOutput struct{ Body *api.RunHistory }

// historyFactor estimates the bytes of memory that reading a history takes for each byte of the
// journal. The measured factor is 2 for runs with many steps, whose journals are large, and 9 for
// runs that are little more than their input.
const historyFactor = 4

// history returns the messages and phases of a run, without the operator's data. It fails with an
// [*admission.QuotaError] if the responses in memory leave no room for the history.
func (r *Service) history(ctx context.Context, c *httpapi.Caller, in *runPath) (*historyOutput, error) {
	info, err := c.Tenant.Run(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	if err := c.Response.Set(int(historyFactor * info.JournalBytes)); err != nil {
		return nil, err
	}
	stored, err := c.Tenant.LoadRun(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	if info.Status == journal.StatusQueued || info.Entries == 0 { // the run has not begun
		none := json.RawMessage("[]")
		return &historyOutput{&api.RunHistory{Input: none, Messages: none, Phases: none, Answered: none}}, nil
	}
	h, err := runlog.ReadHistory(stored)
	if err != nil {
		return nil, err
	}
	stored.Log = nil // large, and no longer needed
	hide := NewRedactor(stored.Modules)
	phases := []runlog.PhaseRecord{}
	for _, p := range h.Phases {
		shown := runlog.PhaseRecord{Phase: p.Phase, Step: p.Step, Calls: []runlog.RecordedCall{}}
		for _, d := range p.Calls {
			if d.Entry == "" || !hide.Has(stored.Agent, d.Entry) {
				shown.Calls = append(shown.Calls, hide.step(d))
			}
		}
		phases = append(phases, shown)
	}
	out := &api.RunHistory{}
	for to, v := range map[*json.RawMessage]any{
		&out.Input:    hide.messages(h.Input),
		&out.Messages: hide.messages(h.State.Messages.All()),
		&out.Phases:   phases,
		&out.Answered: append([]runlog.Answered{}, h.Answered...),
	} {
		b, err := abijson.Marshal(v)
		if err != nil {
			return nil, err
		}
		*to = hide.redactNames(b)
	}
	return &historyOutput{out}, nil
}

// step returns a recorded call without the operator's data.
func (h *Redactor) step(d runlog.RecordedCall) runlog.RecordedCall {
	edits := append([]runlog.Edit{}, d.Edits...)
	for i := range edits {
		edits[i].Removed, edits[i].Inserted = h.messages(edits[i].Removed), h.messages(edits[i].Inserted)
	}
	if len(edits) > 0 {
		d.Edits = edits
	}
	return d
}
