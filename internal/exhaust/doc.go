// Package exhaust tries to exhaust a server through everything that a tenant can make it
// hold. A composition is an agent whose module makes host calls at their largest sizes in
// its hooks, a hostile model, sub-agents, and clients that read slowly or not at all. Each
// runs for some seconds on a real server whose process has a hard memory limit. The server
// must survive, its memory and journal must stay within bounds, and a neighbour must be
// served meanwhile.
//
// The tests also play the flood of one known attack for as long as they are told to; see
// TestFlood.
package exhaust
