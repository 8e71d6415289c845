// Package rerun replays stored runs with their recorded answers. [Read] reads a run. A [Pass] is one
// replay of it: a model and tools that give the recorded answers, and nothing that reaches outside. The
// caller builds an agent with the options that the pass sets, and passes it to [Pass.Run]. [Compare]
// describes what differs between two passes, such as one with the run's own modules and one with another
// module, and whether the first one reproduces the stored run.
//
// A replay has no effects outside of the process. It does not depend on a store: the durable values of
// its modules are in memory, and begin empty.
package rerun
