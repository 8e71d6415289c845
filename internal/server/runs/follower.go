package runs

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Limits of streams of events.
const (
	maxChunkBytes = 32 << 10 // small events are written together up to this size
	pollInterval  = 250 * time.Millisecond
	pageSize      = 500 // events that are read from the store at once
)

// A Follower reads the events of a run, whether it is in progress here, elsewhere, or over.
type Follower struct {
	runs     *Service
	tenant   *store.Tenant
	run      string
	after    int64 // the number of the last event that was read
	redactor *Redactor

	live *ActiveRun // set if the run is or was in progress here
	last bool       // live has no more events
}

// Follow returns a [Follower] that reads a run's events after event number after.
func (r *Service) Follow(t *store.Tenant, info *journal.RunInfo, after int64) *Follower {
	return &Follower{runs: r, tenant: t, run: info.ID, after: after, redactor: NewRedactor(info.Modules)}
}

// next waits for events and returns them. It returns none when the run has ended or paused. It
// calls beat when no event arrives for [httpapi.HeartbeatInterval].
func (f *Follower) next(ctx context.Context, beat func()) ([]Event, error) {
	pulse := time.NewTicker(httpapi.HeartbeatInterval)
	defer pulse.Stop()
	for {
		lines, changed, over, err := f.poll(ctx)
		if err != nil || len(lines) > 0 || over {
			return lines, err
		}
		select {
		case <-changed:
		case <-pulse.C:
			beat()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// poll returns the available events: from memory if the run is in progress here, or else from
// the store.
func (f *Follower) poll(ctx context.Context) (lines []Event, changed <-chan struct{}, over bool, err error) {
	if l := f.runs.Active.Get(f.tenant.ID(), f.run); l != nil {
		f.live = l
	}
	if f.live != nil {
		lines, changed, over, ok := f.live.Since(f.after)
		switch {
		case ok && len(lines) > 0:
			f.last = lines[len(lines)-1].last()
			return f.advance(lines), nil, false, nil
		case f.last:
			return nil, nil, true, nil
		case ok && !over:
			return nil, changed, false, nil
		}
	}
	events, err := f.tenant.RunEvents(ctx, f.run, f.after, pageSize)
	if err != nil {
		return nil, nil, false, err
	}
	for i := range events {
		lines = append(lines, f.redactor.encode(&events[i]))
	}
	if len(lines) > 0 {
		return f.advance(lines), nil, false, nil
	}
	info, err := f.tenant.Run(ctx, f.run)
	if err != nil {
		return nil, nil, false, err
	}
	if info.Status != journal.StatusRunning && info.LastSeq <= f.after {
		return nil, nil, true, nil
	}
	select {
	case <-f.runs.options.Draining:
		return nil, nil, true, nil // the client reconnects, to another server
	default:
	}
	soon := make(chan struct{})
	time.AfterFunc(pollInterval, func() { close(soon) })
	return nil, soon, false, nil
}

func (f *Follower) advance(lines []Event) []Event {
	if len(lines) > 0 {
		f.after = lines[len(lines)-1].Seq
	}
	return lines
}

// All yields all further events. If the run does not end or pause here, the last value is an
// error.
func (f *Follower) All(ctx context.Context) iter.Seq2[abi.Event, error] {
	return func(yield func(abi.Event, error) bool) {
		ended := false
		for {
			lines, err := f.next(ctx, func() {})
			if err != nil || len(lines) == 0 {
				if !ended {
					yield(abi.Event{}, &journal.Error{Run: f.run, Err: errors.Join(err, errCutOff)})
				}
				return
			}
			for _, l := range lines {
				var e abi.Event
				if l.data == nil {
					continue
				}
				if err := json.Unmarshal(l.data, &e); err != nil {
					continue
				}
				ended = e.Type == abi.EventRunFinished || e.Type == abi.EventRunPaused
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

var errCutOff = errors.New("its events ended early")
