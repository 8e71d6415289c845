package agent

import (
	"sync"
	"time"
)

const (
	// maxOut is how many events wait for the caller before the run waits for it,
	// until half of them are taken. Both then wake each other, so it is more than an
	// answer usually has chunks that come at once.
	maxOut = 48
	// linger is how long chunks of a stream may wait for others, and pass how long
	// events may. To wake whoever waits for events costs about as much as a hook of a
	// small module: a caller that has just taken some comes by after that time, without
	// being woken, and nobody sees so small a delay. One that took none for as long is
	// woken at once, so that nothing waits for longer.
	linger = 500 * time.Microsecond
	pass   = 2 * time.Millisecond
)

// An outbox is between a run and its caller: one who sends at a time, and one who
// takes.
type outbox struct {
	mu     sync.Mutex
	ring   *[maxOut]ClientEvent
	first  int // of those in the ring
	n      int
	waits  bool // the caller does, and is to be woken
	comes  bool // the caller does, and comes by in a while, or if it is woken
	full   bool // the run waits, for room
	closed bool

	timer *time.Timer // of the caller that comes by; nil until it is needed

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
		wake := o.awake()
		o.mu.Unlock()
		if wake {
			o.more <- struct{}{}
		}
		<-o.room
		o.mu.Lock()
	}
	o.ring[(o.first+o.n)%maxOut] = e
	o.n++
	wake := o.waits && o.awake()
	o.mu.Unlock()
	if wake {
		o.more <- struct{}{}
	}
}

// awake makes the caller one that does not wait, and reports whether it did: then it is
// to be given a token. Callers hold the lock, but not when they give the token: who
// wakes takes it.
func (o *outbox) awake() bool {
	waited := o.waits || o.comes
	o.waits, o.comes = false, false
	return waited
}

// close says that there are no more events.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	wake := o.awake()
	o.mu.Unlock()
	if wake {
		o.more <- struct{}{}
	}
}

// take returns the next event, for which it waits; false if there are no more.
func (o *outbox) take() (ClientEvent, bool) {
	o.mu.Lock()
	for came := false; o.n == 0; {
		if o.closed {
			if o.ring != nil {
				rings.Put(o.ring)
				o.ring = nil
			}
			o.mu.Unlock()
			return ClientEvent{}, false
		}
		if came { // and there was nothing
			o.waits = true
			o.mu.Unlock()
			<-o.more
			o.mu.Lock()
			continue
		}
		o.comes, came = true, true
		o.mu.Unlock()
		woken := o.rest()
		o.mu.Lock()
		if !woken && !o.comes { // it was in between
			<-o.more
		}
		o.comes = false
	}
	e := o.ring[o.first]
	o.ring[o.first] = ClientEvent{} // what it holds is the caller's now
	o.first = (o.first + 1) % maxOut
	o.n--
	room := o.full && o.n <= maxOut/2
	o.full = o.full && !room
	o.mu.Unlock()
	if room {
		o.room <- struct{}{}
	}
	return e, true
}

// rest waits until it is time for the caller to come by, or it is woken.
func (o *outbox) rest() (woken bool) {
	if o.timer == nil {
		o.timer = time.NewTimer(pass)
	} else {
		o.timer.Reset(pass)
	}
	select {
	case <-o.timer.C:
		return false
	case <-o.more:
		o.timer.Stop()
		return true
	}
}
