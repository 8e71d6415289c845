package runs

import "time"

// A leaseClock tells when leases cannot be trusted: where the database's clock was set
// forward, or this machine slept, runs that live seem to be cut off, until their servers
// have given another sign of life.
type leaseClock struct {
	database, local time.Time // when it was looked at
	until           time.Time // by ours
}

// trusts reports whether what leases say holds, at a time by the database's clock and by ours,
// which only goes on. Who begins trusts them.
func (c *leaseClock) trust(theirs, ours time.Time, lease time.Duration) bool {
	if !c.local.IsZero() && theirs.Sub(c.database)-ours.Sub(c.local) > lease/2 {
		c.until = ours.Add(lease)
	}
	c.database, c.local = theirs, ours
	return !ours.Before(c.until)
}
