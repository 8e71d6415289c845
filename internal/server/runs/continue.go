package runs

import (
	"context"
	"errors"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TurnAfter returns the place of a run that continues the conversation that a finished run left. This
// is the thread of the finished run, if the run is its last one and none is in progress. Otherwise it
// is a fork of the thread, so that several runs can continue one run. A run without a thread becomes
// the first run of a new thread. agent is the agent of new threads, as the request names it.
// TurnAfter fails with [journal.ErrNoRun] if the run does not exist, and with a [*httpapi.Problem] if
// the run has not ended or has failed.
func (r *Service) TurnAfter(ctx context.Context, c *httpapi.Caller, run, agent string) (*Turn, error) {
	info, err := c.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	if info.Status != journal.StatusFinished {
		return nil, httpapi.NewProblem(
			api.CodeConflict,
			"run %s is %s; wait for its end, or answer its tool calls",
			run,
			info.Status,
		)
	}
	switch info.FinishReason {
	case abi.RunError, abi.RunStopped, abi.RunTimeout:
		return nil, httpapi.NewProblem(api.CodeConflict,
			"run %s ended with %q and left no answer; continue from the response before it", run, info.FinishReason)
	}
	if info.Thread == "" {
		h, err := r.adopt(ctx, c, info, agent)
		if err == nil {
			return turnAtEnd(h), nil
		}
		if !errors.Is(err, store.ErrInUse) {
			return nil, err
		}
		if info, err = c.Run(ctx, run); err != nil { // a concurrent request came first
			return nil, err
		}
	}
	h, err := c.Thread(ctx, info.Thread)
	if err != nil {
		return nil, err
	}
	version, err := c.Tenant.RunVersion(ctx, h, run)
	if err != nil {
		return nil, err
	}
	if version < h.Version || h.Run != "" {
		return r.ForkAfter(ctx, c, h.ID, run, agent)
	}
	return turnAtEnd(h), nil
}

// turnAtEnd returns the place of a run that continues a thread from its present end. The run does not
// begin if the thread has changed meanwhile or is busy.
func turnAtEnd(h *store.Thread) *Turn {
	return &Turn{Thread: h.ID, Rewinds: true, Messages: int(h.Messages), Version: h.Version, Concurrency: Reject}
}

// ForkAfter forks a thread at the end of one of its runs, and returns the place of a run that
// continues the fork. agent is the agent of the fork.
func (r *Service) ForkAfter(ctx context.Context, c *httpapi.Caller, thread, run, agent string) (*Turn, error) {
	from, err := c.Thread(ctx, thread)
	if err != nil {
		return nil, err
	}
	h := &store.Thread{
		ID:          store.NewThreadID(),
		Subject:     from.Subject,
		Agent:       agent,
		Concurrency: from.Concurrency,
	}
	if err := c.CheckNewThread(ctx, h); err != nil {
		return nil, err
	}
	h.Metadata = from.Metadata // copied, and not chosen by the caller
	if h, err = c.Tenant.ForkThread(ctx, h, &store.ThreadFork{Thread: from.ID, Run: run}); err != nil {
		return nil, err
	}
	turn := turnAtEnd(h)
	turn.fork = true
	return turn, nil
}

// DiscardFork deletes the thread of a run that did not begin, if the thread is a fork that was created
// for the run. Otherwise requests that fail would fill the store with forks.
func (r *Service) DiscardFork(ctx context.Context, c *httpapi.Caller, turn *Turn) {
	if !turn.fork {
		return
	}
	ctx = context.WithoutCancel(ctx)
	h, err := c.Tenant.Thread(ctx, turn.Thread)
	if err == nil && h.Runs == 0 {
		err = c.Tenant.DeleteThread(ctx, turn.Thread)
	}
	if err != nil && !errors.Is(err, journal.ErrNoThread) {
		r.log.Error("delete the fork of a run that did not begin", "thread", turn.Thread, "error", err)
	}
}

// adopt creates a thread whose first run is an existing run without a thread.
func (r *Service) adopt(
	ctx context.Context,
	c *httpapi.Caller,
	info *journal.RunInfo,
	name string,
) (*store.Thread, error) {
	h := &store.Thread{ID: store.NewThreadID(), Subject: info.Subject, Agent: name}
	if err := c.CheckNewThread(ctx, h); err != nil {
		return nil, err
	}
	end := &journal.ThreadEnd{}
	if err := r.admission.Read(ctx, c.Tenant.ID(), false, func() error {
		stored, err := c.Tenant.LoadRun(ctx, info.ID)
		if err != nil {
			return err
		}
		state, _, err := runlog.Restore(stored.Log)
		if err != nil {
			return err
		}
		if left := agent.ThreadEnd(state, true); left != nil {
			end = left
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return c.Tenant.AdoptRun(ctx, h, info.ID, end)
}

// KnowsKey reports whether an earlier request with the key has started a run.
func (r *Service) KnowsKey(ctx context.Context, c *httpapi.Caller, key Key) bool {
	if !key.given() {
		return false
	}
	_, err := r.Find(ctx, c, key.runID(c))
	return err == nil
}
