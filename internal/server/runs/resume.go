package runs

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Resume resumes a paused run of the caller's tenant with answers to its interrupts, keyed by the
// interrupts' ids. The run records the caller with the answers.
func (r *Service) Resume(
	ctx context.Context,
	c *httpapi.Caller,
	id string,
	answers map[string]json.RawMessage,
	client Client,
) (*ActiveRun, error) {
	return r.resume(ctx, c, id, answers, client, Key{})
}

// resume is like [Service.Resume]. The run also records key, the request's Idempotency-Key.
func (r *Service) resume(
	ctx context.Context,
	c *httpapi.Caller,
	id string,
	answers map[string]json.RawMessage,
	client Client,
	key Key,
) (*ActiveRun, error) {
	t, by := c.Tenant, c.Actor.Kind+" "+c.Actor.ID+" "+c.Actor.Name
	info, err := c.Run(ctx, id)
	if err == nil {
		err = allowAnswers(c, info, answers)
	}
	if err != nil {
		return nil, err
	}
	if info.Status == journal.StatusQuarantined {
		return nil, httpapi.NewProblem(api.CodeConflict,
			"run %s is quarantined; cancel it, or ask the operator to release it", id)
	}
	o, err := r.agentOf(ctx, t, info)
	if err != nil {
		return nil, err
	}
	a, err := client.agent(o)
	if err == nil {
		err = r.checkBlocked(agent.Pins(o.Agent))
	}
	if err != nil {
		o.Release()
		return nil, err
	}
	if old := r.Active.Get(t.ID(), id); old != nil && info.Status == journal.StatusPaused {
		old.waitRemoved(ctx)
	}
	failed := make(chan error, 1)
	admit := func() error {
		if c.Token != nil {
			if err := t.ResumeWithToken(ctx, id, c.EndUser()); err != nil {
				return err
			}
		}
		return t.AdmitRun(ctx, id, info.Agent, false)
	}
	actor := store.ActorOf(ctx)
	l, err := r.run(t, id, o, admit, func(ctx context.Context) (iter.Seq2[delivery.Event, error], error) {
		ctx = agent.Audited(agent.AnsweredBy(ctx, by),
			&journal.Audit{Actor: *actor, Action: "run.answer", Target: id, Detail: decisions(answers)})
		if key.given() {
			ctx = agent.AnsweredOnce(ctx, key.hash(c), key.digest)
		}
		events, err := a.ContinueFor(ctx, id, answers, NewRedactor(agent.Pins(o.Agent)).encoder(client.Encoder))
		failed <- err
		return events, err
	})
	if err != nil {
		return nil, err
	}
	if err := <-failed; err != nil {
		l.waitRemoved(ctx) // so that nobody follows this attempt
		return nil, resumeProblem(err)
	}
	l.From = info.LastSeq
	return l, nil
}

// maxDecisions limits the decisions in an audit record.
const maxDecisions = 20

// decisions returns the audit log's record of the answers to interrupts: the number of answers and,
// for at most maxDecisions of them, the interrupt's id and the decision. The decision is empty for
// answers that have none.
func decisions(answers map[string]json.RawMessage) map[string]any {
	ids := slices.Sorted(maps.Keys(answers))
	out := map[string]any{"answers": len(ids)}
	for _, id := range ids[:min(len(ids), maxDecisions)] {
		var a struct{ Decision string }
		_ = json.Unmarshal(answers[id], &a) // answers without a decision, such as results of tools
		out[truncate.Text(id, 100)] = truncate.Text(a.Decision, 20)
	}
	return out
}

// resumeProblem converts the failure to resume a run to a problem. It returns the journal's
// [journal.ErrNoRun], [journal.ErrBusy] and [journal.ErrFinished], and errors of the database,
// unchanged: [httpapi.ProblemOf] converts them.
func resumeProblem(err error) error {
	var pins *journal.PinError
	var waits *journal.WaitingError
	switch {
	case errors.Is(err, journal.ErrNoRun), errors.Is(err, journal.ErrBusy), errors.Is(err, journal.ErrFinished):
		return err
	case errors.As(err, &pins):
		return httpapi.NewProblem(api.CodeConflict, "%v", pins)
	case errors.As(err, &waits):
		return httpapi.NewProblem(api.CodeConflict, "%v", waits)
	}
	var db *database.Error
	if errors.As(err, &db) {
		return err
	}
	return httpapi.NewProblem(api.CodeInvalid, "%v", err)
}
