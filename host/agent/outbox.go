package agent

import (
	"sync"
	"time"
)

const (
	// maxOut is how many events wait for the caller before the run waits for it,
	// until half of them are taken.
	maxOut = 16
	// linger is how long an event may wait for others. To wake whoever waits for
	// events costs about as much as a hook of a small module: a run that goes on
	// tells of what happens in the meantime at once.
	linger = 500 * time.Microsecond
)

// An outbox is between a run and its caller: one who sends at a time, and one who
// takes.
type outbox struct {
	mu     sync.Mutex
	ring   *[maxOut]ClientEvent
	first  int // of those in the ring
	n      int
	waits  bool // the caller does, for an event
	full   bool // the run waits, for room
	armed  bool // deliver comes
	closed bool
	timer  *time.Timer // of deliver; nil until it is needed

	more chan struct{} // holds a token for a caller that waits
	room chan struct{} // holds a token for a run that does
}

// rings are empty ones.
var rings = sync.Pool{New: func() any { return new([maxOut]ClientEvent) }}

func newOutbox() *outbox {
	return &outbox{ring: rings.Get().(*[maxOut]ClientEvent), more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// send adds an event, and waits while there is no room.
func (o *outbox) send(e ClientEvent) {
	o.mu.Lock()
	for o.n == maxOut {
		o.full = true
		o.wake()
		o.mu.Unlock()
		<-o.room
		o.mu.Lock()
	}
	o.ring[(o.first+o.n)%maxOut] = e
	o.n++
	if o.waits && !o.armed {
		o.arm()
	}
	o.mu.Unlock()
}

// arm lets deliver come after a while. Callers hold the lock.
func (o *outbox) arm() {
	o.armed = true
	if o.timer == nil {
		o.timer = time.AfterFunc(linger, o.deliver)
		return
	}
	o.timer.Reset(linger)
}

// deliver wakes a caller that waits while there are events.
func (o *outbox) deliver() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = false
	if o.n > 0 {
		o.wake()
	}
}

// wake wakes the caller if it waits. Callers hold the lock.
func (o *outbox) wake() {
	if o.waits {
		o.waits = false
		o.more <- struct{}{}
	}
}

// close says that there are no more events.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.wake()
}

// take returns the next event, for which it waits; false if there are no more.
func (o *outbox) take() (ClientEvent, bool) {
	o.mu.Lock()
	for o.n == 0 {
		if o.closed {
			if o.ring != nil {
				rings.Put(o.ring)
				o.ring = nil
			}
			o.mu.Unlock()
			return ClientEvent{}, false
		}
		o.waits = true
		o.mu.Unlock()
		<-o.more
		o.mu.Lock()
	}
	e := o.ring[o.first]
	o.ring[o.first] = ClientEvent{} // what it holds is the caller's now
	o.first = (o.first + 1) % maxOut
	o.n--
	if o.full && o.n <= maxOut/2 {
		o.full = false
		o.room <- struct{}{}
	}
	o.mu.Unlock()
	return e, true
}
