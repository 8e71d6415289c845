package replays

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/store"
)

const (
	runTimeout    = 2 * time.Minute
	pollInterval  = 2 * time.Second
	leaseMargin   = 30 * time.Second // beyond the timeout of a run
	maxAttempts   = 2                // attempts to replay one run; an attempt fails if its server ends
	retention     = 7 * 24 * time.Hour
	pruneInterval = time.Hour
	slice         = 15 * time.Second // after which another replay may be next
	overloadDelay = time.Second      // while the server has no memory for new work
	storeTimeout  = 10 * time.Second
)

// errDraining is the cause of the cancellation of a replay whose server shuts down.
var errDraining = errors.New("the server is shutting down")

// Watch executes replays until ctx is done or the server drains. Replays in progress are then released to
// other servers.
func (s *Service) Watch(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	all.Go(func() {
		select {
		case <-s.o.Draining:
			cancel(errDraining)
		case <-ctx.Done():
		}
	})
	all.Go(func() { s.prune(ctx) })
	for range s.o.Workers {
		all.Go(func() { s.work(ctx) })
	}
	all.Wait()
}

// prune deletes old replays.
func (s *Service) prune(ctx context.Context) {
	ticker := time.NewTicker(pruneInterval)
	defer ticker.Stop()
	for {
		if _, err := s.o.Store.DeleteOldReplays(ctx, retention); err != nil && ctx.Err() == nil {
			s.o.Logger.Error("delete old replays", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// work executes one replay after another.
func (s *Service) work(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		r, err := s.o.Store.ClaimReplay(ctx, s.lease())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.o.Logger.Error("claim a replay", "error", err)
		case r != nil:
			if err := s.execute(ctx, r); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrReplayLost) {
				s.o.Logger.Error("execute replay", "tenant", r.Tenant, "replay", r.ID, "error", err)
				break // its lease expires, and another attempt follows
			}
			continue
		}
		select {
		case <-s.wake:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Service) lease() time.Duration { return s.o.RunTimeout + leaseMargin }

// execute replays the runs of a claimed replay.
func (s *Service) execute(ctx context.Context, r *store.Replay) error {
	for began := time.Now(); ; {
		if time.Since(began) > slice {
			return s.release(ctx, r, nil) // the replays of other tenants are next
		}
		run, cancel, err := s.o.Store.NextReplayRun(ctx, r, s.lease())
		switch {
		case err != nil && ctx.Err() != nil:
			return s.release(ctx, r, nil)
		case err != nil:
			return err
		case cancel:
			return s.o.Store.EndReplay(ctx, r, store.ReplayCanceled)
		case run == nil:
			return s.o.Store.EndReplay(ctx, r, store.ReplayFinished)
		}
		result := s.attempt(ctx, r, run)
		if ctx.Err() != nil {
			return s.release(ctx, r, run)
		}
		run.Outcome = result.Outcome
		if run.Body, err = body(result); err != nil {
			return err
		}
		if err := s.o.Store.FinishReplayRun(ctx, r, run); err != nil {
			return err
		}
	}
}

// release releases the claim of a replay, so that any server can continue it. run is the run in
// progress, or nil.
func (s *Service) release(ctx context.Context, r *store.Replay, run *store.ReplayRun) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return s.o.Store.ReleaseReplay(ctx, r, run)
}

// attempt replays a run. If the replay fails or panics, the result has the reason. The result is nil
// if ctx is done before the replay begins.
func (s *Service) attempt(ctx context.Context, r *store.Replay, run *store.ReplayRun) (result *api.ReplayedRun) {
	if run.Attempts > maxAttempts {
		return &api.ReplayedRun{Outcome: failed,
			Reason: fmt.Sprintf("%d servers ended while they replayed this run", maxAttempts)}
	}
	if !s.await(ctx) {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			s.o.Logger.Error("replay panicked", "tenant", r.Tenant, "replay", r.ID, "run", run.Run, "error", p,
				"stack", string(debug.Stack()))
			result = &api.ReplayedRun{Outcome: failed, Reason: "the server failed to replay this run"}
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.RunTimeout, errTimeout)
	defer cancel()
	tenant := s.o.Store.Tenant(r.Tenant)
	result, err := s.replay(ctx, tenant, r.Agent, run.Run, s.fileOf(tenant, &show(r).Candidate))
	if err == nil {
		return result
	}
	return s.explain(ctx, tenant, run.Run, err)
}

// await waits while the server rejects new work. It reports false if ctx is done first.
func (s *Service) await(ctx context.Context) bool {
	for s.o.Overload.Rejecting() {
		select {
		case <-time.After(overloadDelay):
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// specOf returns the spec of the agent that a run is replayed with: its own, or the candidate's.
func specOf(own agents.Spec, candidate *api.ReplayCandidate) agents.Spec {
	spec := agents.Spec{Agent: own.Agent, Version: own.Version, Rings: own.Rings}
	if candidate.Version != 0 {
		spec.Version = candidate.Version
	}
	return spec
}
