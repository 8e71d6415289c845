// Package exhaust tests that a tenant cannot exhaust the memory or the journal of a server. A composition is an agent
// whose module makes host calls at their largest sizes in its hooks, a hostile model, sub-agents, and clients that
// read slowly or not at all. Each composition runs for some seconds on a real server whose process has a hard memory
// limit. The server must survive, its memory and journal must stay within bounds, and another tenant must be served
// at the same time.
//
// TestFlood plays the flood of one known attack for a given time.
package exhaust
