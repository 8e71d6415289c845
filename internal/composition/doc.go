// Package composition tests the host against its contract with generated compositions of
// middlewares.
//
// A [Composition] is an agent as data: entries in rings, each a puppet whose script says
// what it does in each hook; the model's replies; tool calls, one of which may run another
// agent; limits; and an agent that takes over the conversation. [Generate] makes one from
// a seed. A [Check] runs it on the host and compares the result with that of [Predict], an
// executable form of abi/README.md that shares no code with the host and always takes the
// simplest approach. Both produce an [Account]: lines for what each hook saw, what the
// caller received, what the model was asked, which tools ran, what the run waited for, and
// the final messages.
//
// Predict ignores streams, pauses, processes, goroutines and modules. The checks verify
// that none of them makes a difference: pauses are answered through JSON, some one at a
// time; answers arrive in pieces; calls run concurrently; processes that journal the run
// die in the middle of it; events are translated for a client; puppets run as WebAssembly,
// in two runs of one agent that must use the same fuel. In each run event numbers have no
// gaps, everything that starts also ends, and an observer sees all of it.
//
// A failing seed is shrunk: entries, hooks, replies and calls are removed as long as it
// still fails. The result is printed as a Go literal for regressions_test.go.
//
//	go test ./internal/composition -args -compositions 5000 -seed 12
//	make compositions COMPOSITIONS=100000 SEED=1000000
package composition
