package persist

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// maxLastBytes is the maximum size of the events that after_agent and the observers may emit in a
// stopped run.
const maxLastBytes = 256 << 10

// A shedder drops custom events and log lines that are not persisted when a run is stopped:
// canceled, blocked or timed out. The end of such a run does not wait for its backlog. The
// remaining events are numbered without gaps. The writer's lock guards a shedder.
type shedder struct {
	stopped chan struct{} // closed by Stop
	atEnd   bool          // the loop has ended, and after_agent is next
	left    int           // bytes of events that hooks may still emit once atEnd is set
	dropped int64         // number of dropped events
}

func newShedder() shedder { return shedder{stopped: make(chan struct{}), left: maxLastBytes} }

func (s *shedder) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// drops reports whether a newly emitted event must be dropped. It counts dropped events.
func (s *shedder) drops(e *abi.Event) bool {
	if !s.isStopped() || !delivery.Droppable(e) {
		return false
	}
	if size := emittedBytes(e); s.atEnd && size <= s.left {
		s.left -= size
		return false
	}
	s.dropped++
	return true
}

// drop returns events without the droppable ones, for which it calls free.
func (s *shedder) drop(events []delivery.Event, free func(*delivery.Event)) []delivery.Event {
	left := make([]delivery.Event, 0, 8)
	for i := range events {
		if delivery.Droppable(&events[i].Event) {
			s.dropped++
			free(&events[i])
			continue
		}
		left = append(left, events[i])
	}
	return left
}

func emittedBytes(e *abi.Event) int {
	if e.Type == abi.EventChild && e.Event != nil {
		e = e.Event
	}
	return len(e.Name) + len(e.Data) + len(e.Text)
}

// Stop drops the custom events and log lines that are not persisted. It allows the journal to abort
// the commit in progress. The writer then repeats the commit without such events.
func (w *Writer) Stop() {
	w.mu.Lock()
	if !w.shedder.isStopped() {
		ready := w.shedder.drop(w.events[:w.ready], w.memory.Release)
		w.events = append(ready, w.shedder.drop(w.events[w.ready:], w.memory.Release)...)
		w.ready = len(ready)
		close(w.shedder.stopped)
	}
	w.mu.Unlock()
	signal(w.wake)
}

// Ending allows after_agent and the observers of a stopped run to emit custom events and log lines
// again, up to maxLastBytes. Callers call it when the hooks that were running when the run was
// stopped have returned.
func (w *Writer) Ending() {
	w.mu.Lock()
	w.shedder.atEnd = true
	w.mu.Unlock()
}

// retry repeats an aborted commit without the droppable events. It returns the remaining events.
func (w *Writer) retry(
	c *journal.Commit,
	events []delivery.Event,
) (left []delivery.Event, sync <-chan error, err error) {
	w.mu.Lock()
	left = w.shedder.drop(events, w.memory.Release)
	w.mu.Unlock()
	number(left, c.First)
	c.Last = c.First - 1 + int64(len(left))
	c.Abort, c.Urgent = nil, true
	if c.Events, err = lines(left); err != nil {
		return nil, nil, err
	}
	sync, err = w.write(c)
	return left, sync, err
}

// shed returns the number of dropped events.
func (w *Writer) shed() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shedder.dropped
}
