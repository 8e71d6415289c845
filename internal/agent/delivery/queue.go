package delivery

import (
	"sync"
	"time"
)

const (
	// capacity is the number of events in a full queue, at which the run waits for the caller. The
	// run then waits until half of the events are taken. Since run and caller then wake each other,
	// capacity is higher than the number of chunks that usually arrive at once.
	capacity = 48
	// pollInterval is the time after which a caller that found the queue empty looks again. Waking
	// a goroutine costs about as much as a hook of a small module. Therefore the next event does
	// not wake a caller that has just taken events. It does wake a caller that found nothing for a
	// whole interval.
	pollInterval = 2 * time.Millisecond
)

// A Queue passes events from a run to its caller. Only one goroutine may send at a time, and only
// one may take.
type Queue struct {
	mu      sync.Mutex
	ring    *[capacity]Event
	first   int // index of the oldest event in ring
	n       int
	waiting bool // the caller waits for more
	polling bool // the caller waits for more, for at most pollInterval
	full    bool // the run waits until events are taken
	closed  bool

	timer *time.Timer // timer of a polling caller; created on first use

	more chan struct{} // has a token for a caller that waits or polls
	room chan struct{} // has a token for a run that waits
}

// rings contains empty rings for reuse.
var rings = sync.Pool{New: func() any { return new([capacity]Event) }}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{ring: rings.Get().(*[capacity]Event), more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Send adds a copy of an event. It waits while the queue is full.
func (q *Queue) Send(e *Event) {
	q.mu.Lock()
	for q.n == capacity {
		q.full = true
		wake := q.stopWaiting()
		q.mu.Unlock()
		if wake {
			q.more <- struct{}{}
		}
		<-q.room
		q.mu.Lock()
	}
	q.ring[(q.first+q.n)%capacity] = *e
	q.n++
	wake := q.waiting && q.stopWaiting()
	q.mu.Unlock()
	if wake {
		q.more <- struct{}{}
	}
}

// stopWaiting marks the caller as running. It reports whether the caller waited or polled. If so,
// the calling function must send the caller a token after releasing mu. Callers hold mu.
func (q *Queue) stopWaiting() bool {
	waited := q.waiting || q.polling
	q.waiting, q.polling = false, false
	return waited
}

// Close marks the end of the events. Take still returns the events in the queue.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	wake := q.stopWaiting()
	q.mu.Unlock()
	if wake {
		q.more <- struct{}{}
	}
}

// Take stores the next event in e. It waits while the queue is empty. It returns false and stores
// nothing if the queue is closed and empty.
func (q *Queue) Take(e *Event) bool {
	q.mu.Lock()
	for polled := false; q.n == 0; {
		if q.closed {
			if q.ring != nil {
				rings.Put(q.ring)
				q.ring = nil
			}
			q.mu.Unlock()
			return false
		}
		if polled {
			q.waiting = true
			q.mu.Unlock()
			<-q.more
			q.mu.Lock()
			continue
		}
		q.polling, polled = true, true
		q.mu.Unlock()
		woken := q.poll()
		q.mu.Lock()
		if !woken && !q.polling { // a token was sent after the timer fired
			<-q.more
		}
		q.polling = false
	}
	*e = q.ring[q.first]
	q.ring[q.first] = Event{} // release the memory of the event
	q.first = (q.first + 1) % capacity
	q.n--
	room := q.full && q.n <= capacity/2
	q.full = q.full && !room
	q.mu.Unlock()
	if room {
		q.room <- struct{}{}
	}
	return true
}

// poll waits until a token arrives, but at most for pollInterval, and reports whether one arrived.
func (q *Queue) poll() (woken bool) {
	if q.timer == nil {
		q.timer = time.NewTimer(pollInterval)
	} else {
		q.timer.Reset(pollInterval)
	}
	select {
	case <-q.timer.C:
		return false
	case <-q.more:
		q.timer.Stop()
		return true
	}
}
