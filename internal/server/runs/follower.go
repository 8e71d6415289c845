package runs

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/sse"
	"github.com/agent-runner/agent-runner/internal/store"
)

// maxChunkBytes is the size up to which a stream writes small events together.
const maxChunkBytes = 32 << 10

// A Follower reads the events of a run, whether it is in progress here, elsewhere, or over.
type Follower struct {
	runs     *Service
	tenant   *store.Tenant
	run      string
	after    int64 // the number of the last event that was read
	redactor *Redactor
	response *admission.Response // counts the events that next returned last
	token    *store.Token        // the token of the end user who follows; nil for other callers
	copies   int                 // number of copies in memory of each event that next returned last

	queued bool   // the run was in a queue when it was last read; its modules are not known
	last   bool   // next has returned the event that ended or paused the run here
	known  int64  // the number of the run's last event when the store was last read
	state  *poll  // set once the follower has read from the store
	leave  func() // ends the use of state

	watch *watcher // sends the activity of the run; nil if the client did not ask for it
}

// Follow returns a [Follower] that reads a run's events with numbers greater than after, for the
// response to c. Code that calls the follower's method next must call leavePoll at the end.
func (r *Service) Follow(c *httpapi.Caller, info *journal.RunInfo, after int64) *Follower {
	return &Follower{
		runs:     r,
		tenant:   c.Tenant,
		run:      info.ID,
		after:    after,
		redactor: NewRedactor(info.Modules),
		queued:   info.Status == journal.StatusQueued,
		response: c.Response,
		token:    c.Token,
		copies:   1,
	}
}

// next waits for events and returns them. While it waits, it keeps the stream s alive, unless s is
// nil. It returns no events if the run has ended or paused, or if the server drains. The events that
// the previous call returned are invalid afterwards.
func (f *Follower) next(ctx context.Context, s *sse.Stream) ([]Event, error) {
	_ = f.response.Set(0)
	for {
		lines, changed, over, err := f.poll(ctx)
		if err != nil || over {
			return nil, err
		}
		if size := f.copies * Size(lines); size > 0 {
			if f.response.Set(size) == nil {
				f.after = lines[len(lines)-1].Seq
				return lines, nil
			}
			f.last = false                            // the events are not in memory during the wait, and are read again
			room := max(size, f.copies*maxBatchBytes) // more events may exist after the wait
			if err := f.response.Wait(ctx, room, s.Wait); err != nil {
				return nil, err
			}
			continue
		}
		more := f.watch.send(s)
		if s != nil && s.Err != nil {
			return nil, s.Err
		}
		if !s.WaitEither(ctx, changed, more) {
			return nil, context.Cause(ctx)
		}
	}
}

// poll returns the available events: from memory if the run is in progress here, or else from the
// store. If there are none, either over is true, because the run is over or the server drains, or
// changed is closed when the caller should poll again.
func (f *Follower) poll(ctx context.Context) (lines []Event, changed <-chan struct{}, over bool, err error) {
	if f.last {
		return nil, nil, true, nil
	}
	if l := f.runs.Active.Get(f.tenant.ID(), f.run); l != nil {
		lines, changed, over, ok := l.Since(f.after)
		switch {
		case ok && len(lines) > 0:
			f.last = lines[len(lines)-1].last()
			return lines, nil, false, nil
		case ok && !over:
			return nil, changed, false, nil
		}
	}
	return f.pollRemote(ctx)
}

// pollRemote is poll for a run that is not in progress here; its results have the same meaning. It
// returns events that came with hints, or else reads from the store.
func (f *Follower) pollRemote(ctx context.Context) (lines []Event, changed <-chan struct{}, over bool, err error) {
	if f.state == nil {
		f.state, f.leave = f.runs.polls.join(f.run)
	}
	lines, last := f.state.since(f.after)
	if f.known = max(f.known, last); len(lines) > 0 {
		f.last = lines[len(lines)-1].last()
		return lines, nil, false, nil
	}
	wait := minPollInterval
	if f.known <= f.after {
		if wait, over, err = f.query(ctx); err != nil || over {
			return nil, nil, over, err
		}
	}
	if f.known > f.after {
		if lines, err = f.read(ctx); err != nil || len(lines) > 0 {
			return lines, nil, false, err
		}
	}
	select {
	case <-f.runs.options.Draining:
		return nil, nil, true, nil // the client reconnects, to another server
	default:
	}
	return nil, f.state.wait(wait), false, nil
}

// query sets known to the number of the run's last event in the store. wait is the time until a new
// answer is available. over is true if the run is not in progress and the follower has read all of
// its events.
func (f *Follower) query(ctx context.Context) (wait time.Duration, over bool, err error) {
	info, wait, err := f.state.state(func() (*journal.RunInfo, error) { return f.tenant.Run(ctx, f.run) })
	if err != nil {
		return 0, false, err
	}
	f.known = info.LastSeq
	if f.queued {
		f.redactor, f.queued = NewRedactor(info.Modules), info.Status == journal.StatusQueued
	}
	return wait, f.known <= f.after && info.Status != journal.StatusRunning && !f.queued, nil
}

// leavePoll ends the follower's use of its poll, if it has one.
func (f *Follower) leavePoll() {
	if f.state != nil {
		f.leave()
		f.state, f.leave = nil, nil
	}
}

// read returns a batch of events from the store. It returns none if too many reading requests of
// the tenant are waiting.
func (f *Follower) read(ctx context.Context) (lines []Event, err error) {
	err = f.runs.admission.Read(ctx, f.tenant.ID(), false, func() error {
		events, err := f.tenant.RunEvents(ctx, f.run, f.after, maxBatch, maxBatchBytes)
		size := 0
		for i := range events {
			l := f.redactor.encode(&events[i])
			if size += l.size(); size > maxBatchBytes && i > 0 {
				break
			}
			lines = append(lines, l)
		}
		return err
	})
	if busy := (*admission.QuotaError)(nil); errors.As(err, &busy) {
		return nil, nil
	}
	return lines, err
}

// All returns the further events of the run, or the part of them that the end user of a token may see.
// If the events stop before the run has ended or paused, for example because the server drains, the
// last value is a [*journal.Error].
func (f *Follower) All(ctx context.Context) iter.Seq2[abi.Event, error] {
	f.copies = 3 // the JSON of an event, its value, and what the caller writes for it
	return func(yield func(abi.Event, error) bool) {
		defer f.leavePoll()
		ended := false
		for {
			lines, err := f.next(ctx, nil)
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
				if f.token != nil {
					shown := protocolEvent(&e, f.token.Answers)
					if shown == nil {
						continue
					}
					e = *shown
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

var errCutOff = errors.New("its events ended early")
