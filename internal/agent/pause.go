package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// A PausedError is the error of a run that waits for answers. The run has not ended, so after_agent
// has not run. [Agent.Resume] continues the run from State.
type PausedError struct {
	State      *runlog.State
	Interrupts []abi.Pending
}

// Error returns the reason if the run waits for one answer, and otherwise the number of answers.
func (p *PausedError) Error() string {
	if len(p.Interrupts) == 1 {
		return "the run waits for an answer: " + p.Interrupts[0].Reason
	}
	return fmt.Sprintf("the run waits for %d answers", len(p.Interrupts))
}

// pause ends this part of the run and saves the state with which the run can be resumed.
func (r *run) pause(ctx context.Context) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endBudget)
	defer cancel()
	pending := r.state.Pending()
	e := abi.Event{Type: abi.EventRunPaused, Interrupts: pending, Resume: r.state.ID}
	if limit := r.root.PauseTimeout; limit > 0 {
		r.state.Expires = time.Now().Add(limit)
		e.ExpiresMS = r.state.Expires.UnixMilli()
	}
	r.observeLast(end, e)
	r.out.Lock()
	out := delivery.Event{Event: e}
	r.prepare(&out)
	r.out.Unlock()
	r.state.StepOpen, r.state.Streams, r.state.Revisions = r.stepOpen, r.chain.Streams().Load(), r.revs.Last()
	if r.recorder != nil && r.delivered() { // an outer wrapper delivered chunks before an inner one paused the run
		r.recorder.head()
	}
	state := r.state
	state.Used = r.stats()
	if r.state.Parent == "" {
		state.Modules = Pins(r.root)
	}
	r.paused = &PausedError{State: &state, Interrupts: pending}
	r.last(out, journal.StatusPaused)
}

// Resume continues a paused run with answers to some or all of its interrupts, by interrupt ID.
// Unanswered interrupts pause the run again. The state may come from another process. Resume does
// not modify it.
//
// The answer to a gate's question is an [abi.Approval], true or false. Resume returns an error if
// the run does not wait for an answer, or if an answer has an unknown ID or is invalid. It also
// returns one if the run had other additional middlewares than the agent has, or if the agent
// cannot transfer to the run's current agent. The error is a [*journal.PinError] if the agent's
// modules differ from those with which the run paused.
func (a *Agent) Resume(
	ctx context.Context,
	state *runlog.State,
	answers map[string]json.RawMessage,
) (iter.Seq2[abi.Event, error], error) {
	r, err := answered(ctx, a, state, answers)
	if err != nil {
		return nil, err
	}
	return events(stream(ctx, r)), nil
}

// answered returns a run that continues from state with answers; see [Agent.Resume] for its errors.
func answered(
	ctx context.Context, a *Agent, state *runlog.State, answers map[string]json.RawMessage,
) (*run, error) {
	if state == nil || state.Record == nil || len(state.Record.Pending()) == 0 {
		return nil, errors.New("resume: the run does not wait for an answer")
	}
	r, err := resumed(a, state)
	if err != nil {
		return nil, err
	}
	if state.Modules != nil {
		if err := a.checkPins(state.ID, state.Modules); err != nil {
			return nil, fmt.Errorf("resume: %w", err)
		}
	}
	if err := r.state.Answer(answers, answererOf(ctx)); err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	return r, nil
}

// expired returns an [*ExpiredError] if the run was answered too late. It removes the expiry time
// from the state.
func (r *run) expired() error {
	at := r.state.Expires
	r.state.Expires = time.Time{}
	if at.IsZero() || time.Now().Before(at) {
		return nil
	}
	return &ExpiredError{Limit: r.root.PauseTimeout, At: at}
}

// legacyRevisions is the first revision of a resumed run whose state has no Revisions, because an
// older version paused it. It exceeds every earlier revision of such a run. Later revisions stay
// below 2^53, the limit of numbers in JSON.
const legacyRevisions = 1 << 40

// resumed returns a run of root agent a with a copy of state. The run continues with the agent that
// state names if that is a or an agent to which a can transfer. If it is neither, the run continues
// with a, but resumed returns an error if a has transfers to other agents. It also returns an error
// if the run had other additional middlewares than a has.
func resumed(a *Agent, state *runlog.State) (*run, error) {
	own, err := runlog.CloneState(state)
	if err == nil {
		err = a.checkWith(own)
	}
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	r := &run{root: a, agent: a, journal: a.Journal, events: delivery.NewQueue(), ids: map[string]bool{},
		revs: message.ResumeRevisions(cmp.Or(own.Revisions, legacyRevisions))}
	r.state = *own
	if at := a.find(own.Agent); at != nil {
		r.agent = at
	} else if len(a.transfers) > 0 {
		return nil, fmt.Errorf("resume: the run is at agent %q, and agent %q transfers to no agent of that name", own.Agent, a.Name)
	}
	messages := r.state.Messages.All()
	for _, id := range r.state.Input {
		r.ids[id] = true
	}
	r.state.Messages = message.NewList(r.revs, messages)
	r.stepOpen = r.state.StepOpen
	r.takeRequest()
	return r, nil
}
