// Package cluster finds out which of the servers that share a database have ended. Each server
// sends a heartbeat over the bus of hints four times a second, and stores one in the database each
// second; see package quarantine. A server that is silent on both has ended, as far as the others
// can know. They then let its leases expire at once rather than after the lease time.
//
// A wrong guess does no harm beyond the work of moving a run: the server that is alive, but was
// silent, can no longer write to a run that another one has claimed since.
package cluster
