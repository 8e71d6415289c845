package runs

import "time"

// A leaseClock detects when leases cannot be trusted. If the database's clock was set forward
// or this machine slept, live runs appear expired until their servers send another heartbeat.
type leaseClock struct {
	database, local time.Time // at the last call of trust
	until           time.Time // leases are not trusted before this time of the local clock
}

// trust reports whether expired leases can be trusted. remote is the time by the database's clock,
// and local the time by the local monotonic clock. They cannot be trusted for the duration lease
// after the database's clock has advanced by over half a lease more than the local one between two
// calls. The first call returns true.
func (c *leaseClock) trust(remote, local time.Time, lease time.Duration) bool {
	if !c.local.IsZero() && remote.Sub(c.database)-local.Sub(c.local) > lease/2 {
		c.until = local.Add(lease)
	}
	c.database, c.local = remote, local
	return !local.Before(c.until)
}
