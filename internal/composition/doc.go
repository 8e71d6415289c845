// Package composition tests the host against its contract with generated compositions of
// middlewares.
//
// A [Composition] is an agent as data: entries in rings, each a puppet with a script of its actions
// in each hook; the model's replies; tool calls, one of which may run another agent; limits; and an
// agent that takes over the conversation. [Generate] makes one from a seed. A [Check] runs it on
// the host and compares the result with that of [Predict], an executable form of abi/README.md that
// shares no code with the host and always takes the simplest approach. Both produce an [Account]:
// lines for the input of each hook, the events that the caller received, the requests to the model,
// the tools that ran, the interrupts, and the final messages.
//
// Predict ignores streams, pauses, processes, goroutines and modules. The checks verify that none
// of them makes a difference: the state of a paused run passes through JSON, and its interrupts are
// answered together or one at a time; answers arrive in chunks; calls run concurrently; processes
// that journal the run die in the middle of it; events are translated for a client; puppets run as
// WebAssembly, in two runs of one agent that must use the same fuel. In each run event numbers have
// no gaps, every start has a matching end, and an observer receives all events.
//
// A failing seed is shrunk: entries, hooks, replies and calls are removed as long as it
// still fails. The result is printed as a Go literal for regressions_test.go.
//
//	go test ./internal/composition -args -compositions 5000 -seed 12
//	make compositions COMPOSITIONS=100000 SEED=1000000
package composition
