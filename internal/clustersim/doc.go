// Package clustersim has tests that run up to 100 servers in one process, on simulated time. The servers
// use the code of the platform for heartbeats, claims, runs and queues, one SQLite database, and a
// network of hints that the tests disturb.
//
// All runs are resumed, whatever the evidence against them; package clusterchaos has runs that end their
// servers. A server is simulated without HTTP, modules and a process of its own. When it is killed, its database
// answers with errors, its hints reach no one, and its tools have no effect. While it is paused, its
// database, models and tools do not return.
package clustersim
