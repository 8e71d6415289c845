// Package rerun replays stored runs with their recorded answers. [Read] reads a run. A [Pass] is one
// replay of the run: a model and tools that give the recorded answers. The caller builds an agent
// with the options that the pass sets, and passes the agent to [Pass.Run]. [Compare] describes the
// differences between two passes, such as one with the run's own modules and one with another module,
// and whether the first pass reproduces the stored run.
//
// A replay has no effects outside of the process. It does not depend on a store: the durable values of
// its modules are in memory, and begin empty.
package rerun
