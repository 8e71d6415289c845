package runs

import "time"

// A leaseClock tells when leases cannot be trusted: where the database's clock was set
// forward, or this machine slept, runs that live seem to be cut off, until their servers
// have given another sign of life.
type leaseClock struct {
	theirs, ours time.Time // when it was looked at
	until        time.Time // by ours
}

// trusts reports whether what leases say holds, at a time by the database's clock and by ours,
// which only goes on. Who begins trusts them.
func (c *leaseClock) trusts(theirs, ours time.Time, lease time.Duration) bool {
	if !c.ours.IsZero() && theirs.Sub(c.theirs)-ours.Sub(c.ours) > lease/2 {
		c.until = ours.Add(lease)
	}
	c.theirs, c.ours = theirs, ours
	return !ours.Before(c.until)
}
