package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

const (
	// queueInterval is the time between two searches for queued runs that may start. The server on which
	// a run ends searches at once, so that the others only find runs whose server died before that.
	queueInterval = 3 * time.Second
	// queuedTTL is the time for which a server reserves a queued run that it is about to start. If
	// the start fails temporarily, it is repeated after this time.
	queuedTTL    = 15 * time.Second
	maxStartable = 100 // per search
)

// A queuedRun is a run in the queue of a thread, as the store has it.
type queuedRun struct {
	Agent    string            `json:"agent"`
	Version  int64             `json:"version,omitempty"`
	Alias    string            `json:"alias,omitempty"`
	Messages []json.RawMessage `json:"messages"`
	Metadata abi.Params        `json:"metadata,omitempty"`
	Digest   string            `json:"digest,omitempty"`
}

// A queuedError reports that a run did not begin but was added to the queue of its thread.
type queuedError struct{ run *journal.RunInfo }

// Error implements error.
func (e *queuedError) Error() string { return "run " + e.run.ID + " is queued" }

// beginLater adds a run to the queue of a busy thread, and returns a [*queuedError]. If the thread
// rejects concurrent runs, it returns busy. With [Cancel] it also cancels the runs ahead of the new one.
func (r *Service) beginLater(
	ctx context.Context,
	c *httpapi.Caller,
	ref agents.Ref,
	in agent.Input,
	client Client,
	busy *journal.ThreadBusyError,
) error {
	h, err := c.Thread(ctx, client.Turn.Thread)
	if err != nil {
		return err
	}
	choice := cmp.Or(client.Turn.Concurrency, ConcurrencyOf(h))
	if choice == Reject {
		return busy
	}
	q := queuedRun{
		Agent:    ref.Name,
		Version:  ref.Version,
		Alias:    ref.Alias,
		Metadata: in.Metadata,
		Digest:   in.RequestDigest,
	}
	for i := range in.Messages {
		b, err := abijson.Marshal(&in.Messages[i])
		if err != nil {
			return err
		}
		q.Messages = append(q.Messages, b)
	}
	log, err := json.Marshal(&q)
	if err != nil {
		return err
	}
	spec, err := json.Marshal(agents.Spec{Agent: ref.Name, Version: ref.Version, Alias: ref.Alias})
	if err != nil {
		return err
	}
	var metadata []byte
	if len(in.Metadata) > 0 {
		if metadata, err = abijson.Marshal(in.Metadata); err != nil {
			return err
		}
	}
	if err := c.Tenant.EnqueueRun(ctx, &journal.Creation{
		ID:       in.RunID,
		Agent:    ref.Name,
		Title:    runlog.Title(message.NewList(message.NewRevisions(), in.Messages)),
		Spec:     spec,
		Log:      log,
		Thread:   &journal.ThreadStart{Thread: h.ID},
		EndUser:  in.EndUser,
		Metadata: metadata,
	}); err != nil {
		return err
	}
	if choice == Cancel {
		if err := r.cancelBefore(ctx, c, h.ID, in.RunID); err != nil {
			return err
		}
	}
	info, err := c.Tenant.Run(ctx, in.RunID)
	if err != nil {
		return err
	}
	r.wakeQueues()
	return &queuedError{info}
}

// cancelBefore cancels the unfinished runs of a thread that are ahead of a queued run, the last one
// first, so that none of them starts in between.
func (r *Service) cancelBefore(ctx context.Context, c *httpapi.Caller, thread, run string) error {
	list, err := c.Tenant.QueuedBefore(ctx, thread, run)
	if err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0; i-- {
		_, err := r.cancel(ctx, c, &runPath{Run: list[i].ID})
		if err != nil && !errors.Is(err, journal.ErrFinished) && !errors.Is(err, journal.ErrNoRun) {
			return err
		}
	}
	return nil
}

// checkSameQueued rejects a request with the Idempotency-Key of a different request whose run is in a
// queue.
func (r *Service) checkSameQueued(ctx context.Context, tenant string, known *journal.RunInfo, in *agent.Input) error {
	log, err := r.store.Tenant(tenant).QueuedRun(ctx, known.ID)
	if errors.Is(err, journal.ErrNoRun) {
		return nil // it has just begun
	}
	var q queuedRun
	if err == nil {
		err = json.Unmarshal(log, &q)
	}
	if err == nil && q.Digest != in.RequestDigest {
		err = reusedKey("started", known.ID)
	}
	return err
}

// wakeQueues causes a search for queued runs that may start.
func (r *Service) wakeQueues() {
	select {
	case r.freed <- struct{}{}:
	default:
	}
}

// WatchQueues starts queued runs when the runs before them have ended, until ctx is done or the
// server drains. The queues are in the store, so that any server can start any queued run.
func (r *Service) WatchQueues(ctx context.Context) {
	ticker := time.NewTicker(queueInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.options.Draining:
			return
		case <-r.freed:
		case <-ticker.C:
		}
		if err := r.StartQueued(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("look for queued runs", "error", err)
		}
	}
}

// StartQueued starts the queued runs that are the next ones of their threads. It does nothing while
// the server rejects new runs.
func (r *Service) StartQueued(ctx context.Context) error {
	if r.options.Overload.Rejecting() {
		return nil
	}
	list, err := r.store.StartableRuns(ctx, maxStartable)
	if err != nil {
		return err
	}
	for i := range list {
		info := &list[i]
		t := r.store.Tenant(info.Tenant)
		claimed, err := t.ClaimQueued(ctx, info.ID, r.options.Owner, queuedTTL)
		if err != nil {
			return err
		}
		if claimed {
			r.options.Go(func() { r.startQueued(ctx, t, info) })
		}
	}
	return nil
}

// startQueued starts a queued run, or ends it if it can never start.
func (r *Service) startQueued(ctx context.Context, t *store.Tenant, info *journal.RunInfo) {
	log := r.log.With("tenant", info.Tenant, "run", info.ID)
	err := r.beginQueued(ctx, t, info)
	var busy *journal.ThreadBusyError
	switch full := (*store.QuotaError)(nil); {
	case err == nil, errors.As(err, &busy), errors.Is(err, journal.ErrExists), errors.Is(err, journal.ErrNoRun):
	case errors.As(err, &full) && full.RetryAfter == 0,
		errors.Is(err, store.ErrNoAgent), errors.Is(err, store.ErrNoModule), isPermanent(err):
		log.Warn("queued run cannot start", "error", err)
		if err := t.AbandonRun(ctx, info.ID, "it could not start: "+err.Error(), nil); err != nil {
			log.Error("end a queued run", "error", err)
		}
	default:
		log.Warn("start queued run", "error", err)
	}
}

func (r *Service) beginQueued(ctx context.Context, t *store.Tenant, info *journal.RunInfo) error {
	log, err := t.QueuedRun(ctx, info.ID)
	if err != nil {
		return err
	}
	var q queuedRun
	if err := json.Unmarshal(log, &q); err != nil {
		return httpapi.NewProblem(api.CodeInvalid, "the queued request is damaged: %v", err)
	}
	in := agent.Input{
		RunID:         info.ID,
		Metadata:      q.Metadata,
		RequestDigest: q.Digest,
		EndUser:       info.EndUser,
		Messages:      make([]abi.Message, len(q.Messages)),
	}
	for i, raw := range q.Messages {
		if _, err := abijson.Decode(raw, &in.Messages[i]); err != nil {
			return httpapi.NewProblem(api.CodeInvalid, "the queued request is damaged: %v", err)
		}
	}
	caller := &httpapi.Caller{Tenant: t, Key: &store.Key{Tenant: t.ID()}, BodyBytes: len(log)}
	ref := agents.Ref{AgentRef: store.AgentRef{Name: q.Agent, Version: q.Version}}
	ref.Alias, ref.Thread = q.Alias, info.Thread
	for range maxTurnAttempts {
		continued, err := r.turnInput(ctx, caller, in, &Turn{Thread: info.Thread})
		if err != nil {
			return err
		}
		l, err := r.beginRun(ctx, caller, ref, continued, Client{})
		if l == nil || !errors.Is(err, journal.ErrThreadChanged) {
			return err
		}
		l.waitRemoved(ctx)
	}
	return journal.ErrThreadChanged
}
