// Package composition tests the host against its contract by compositions of
// middlewares that nobody thought of.
//
// A [Composition] is an agent as data: some entries in rings, each a puppet whose
// script says what it does in each hook; replies of a model; calls of tools, of which
// one may be an agent again; limits of its calls; an agent that it hands the conversation over to. [Generate] makes one from a seed. A [Check] plays it
// on the host, and compares what came of it with what [Predict] says: an executable form of
// abi/README.md, which shares no code with the host and does the plainest thing
// everywhere. Both give an [Account], line by line: what each hook was shown, what the
// caller was told, what the model was asked, which tools ran, what the run waited for, and
// its messages at the end.
//
// Predict knows nothing of streams, pauses, processes, goroutines and modules, and the
// checks say that none of them makes a difference: pauses are answered through JSON, some
// one by one; answers come in pieces, of which the messages are put together; calls are
// made side by side; processes that keep the run in a journal die in the middle of it; events are translated
// for a client; puppets are WebAssembly, in two runs of one agent, which use the same fuel. In each run the
// numbers of the events have no gaps, what began has its end, and an observer is told of all.
//
// A seed that fails is shrunk: entries, hooks, replies and calls are taken away as long
// as it goes on failing. What is left is printed as a Go literal, for regressions_test.go.
//
//	go test ./internal/composition -args -compositions 5000 -seed 12
//	make compositions COMPOSITIONS=100000 SEED=1000000
package composition
