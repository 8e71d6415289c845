// Package clustersim has tests that run up to 100 servers in one process, on simulated time. The servers
// use the code of the platform for heartbeats, claims, quarantine, runs and queues, one SQLite database,
// and a network of hints that the tests disturb. Some runs end their servers, with or without a crash
// report.
//
// A server is simulated without HTTP, modules and a process of its own. When it is killed, its database
// answers with errors, its hints reach no one, and its tools have no effect. While it is paused, its
// database, models and tools do not return.
package clustersim
