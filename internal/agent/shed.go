package agent

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// maxLastBytes bounds the events that hooks emit once their run was stopped, such as those
// of after_agent.
const maxLastBytes = 256 << 10

// A shedder drops custom events and log lines that are not persisted when a run is stopped:
// canceled, blocked, or out of time. The end of such a run doesn't wait for its backlog.
// The events that remain are numbered without gaps. The keeper's lock guards it.
type shedder struct {
	stopped chan struct{} // closed by stop
	ending  bool          // the hooks have ended, and after_agent is next
	room    int           // bytes left for events that are emitted from then on
	dropped int64         // events
}

func newShedder() shedder { return shedder{stopped: make(chan struct{}), room: maxLastBytes} }

func (s *shedder) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// drops reports whether an event that is emitted now is dropped.
func (s *shedder) drops(e *abi.Event) bool {
	if !s.isStopped() || !droppable(e) {
		return false
	}
	if size := emittedBytes(e); s.ending && size <= s.room {
		s.room -= size
		return false
	}
	s.dropped++
	return true
}

// thin returns the events that are kept when the run is stopped, and frees the others.
func (s *shedder) thin(events []ClientEvent, free func(*ClientEvent)) []ClientEvent {
	kept := make([]ClientEvent, 0, 8)
	for i := range events {
		if droppable(&events[i].Event) {
			s.dropped++
			free(&events[i])
			continue
		}
		kept = append(kept, events[i])
	}
	return kept
}

// droppable reports whether an event tells only what a module emitted or logged.
func droppable(e *abi.Event) bool {
	if e.Type == abi.EventChild && e.Event != nil {
		e = e.Event
	}
	return e.Type == abi.EventCustom || e.Type == abi.EventLog
}

func emittedBytes(e *abi.Event) int {
	if e.Type == abi.EventChild && e.Event != nil {
		e = e.Event
	}
	return len(e.Name) + len(e.Data) + len(e.Text)
}

// number gives events the numbers from first on: those before them may have been dropped.
func number(events []ClientEvent, first int64) {
	for i := range events {
		events[i].Event.Seq = first + int64(i)
	}
}

// stop drops what may be dropped of the events that are not persisted, and aborts the
// commit that is in progress, which is repeated without them.
func (k *keeper) stop() {
	k.mu.Lock()
	if !k.shedder.isStopped() {
		safe := k.shedder.thin(k.events[:k.safe], k.run.free)
		k.events = append(safe, k.shedder.thin(k.events[k.safe:], k.run.free)...)
		k.safe = len(safe)
		close(k.shedder.stopped)
	}
	k.mu.Unlock()
	signal(k.wake)
}

// settle lets after_agent and observers emit again: the hooks that the run was stopped in
// have ended.
func (k *keeper) settle() {
	k.mu.Lock()
	k.shedder.ending = true
	k.mu.Unlock()
}

// retry repeats a commit that was aborted, without the events that may be dropped. It
// returns those that are left.
func (k *keeper) retry(c *journal.Commit, events []ClientEvent) (left []ClientEvent, disk <-chan error, err error) {
	k.mu.Lock()
	left = k.shedder.thin(events, k.run.free)
	k.mu.Unlock()
	number(left, c.First)
	c.Last = c.First - 1 + int64(len(left))
	c.Abort, c.Urgent = nil, true
	if c.Events, err = lines(left); err != nil {
		return nil, nil, err
	}
	disk, err = k.write(c)
	return left, disk, err
}

// shed returns how many events were dropped.
func (k *keeper) shed() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shedder.dropped
}
