// Package cluster detects which of the servers that share a database have ended. Each server sends a
// heartbeat over the bus of hints four times a second, and stores one in the database each second;
// see package quarantine. If a server sends no heartbeat in either way, the other servers treat it as
// ended, and let its leases expire at once.
//
// A server that is treated as ended by mistake loses its runs: it cannot write to a run that another
// server has claimed.
package cluster
