package server

import (
	"runtime"
	"time"
)

// What a tenant keeps processors busy with for long is one account: guests, lists that are
// looked up, large inputs that are read and written. Each alone may have all of it, but who
// does all at once has no more.
const (
	workBurst = 250 * time.Millisecond // that a tenant's work has without a rest
	crowded   = 50 * time.Microsecond  // what a turn that others wanted is waited for
)

// newWork is that account, of tenants who have so many processors at once.
func newWork(each int) *paces { return newPaces(each, workBurst) }

// othersWait reports whether other tenants want a processor, and lets them have it.
func (s *Server) othersWait(tenant string) bool {
	return s.underway.besides(tenant) && yield() > crowded
}

// yield lets all others who want a processor have it first.
func yield() time.Duration {
	asked := time.Now()
	// Whoever gets a turn from another guest is run in that one's place, before all that
	// Go has in its common queue: what comes from the disk, say, which would wait for
	// dozens of turns. So it goes to the end of that queue first.
	runtime.Gosched()
	standBack() // threads of this process wait in the system's queue, too
	return time.Since(asked)
}
