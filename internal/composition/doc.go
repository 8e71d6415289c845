// Package composition tests the host against its contract by compositions of
// middlewares that nobody thought of.
//
// A [Composition] is an agent as data: some entries in rings, each a puppet
// whose [Script] says what it does in each hook; replies of a model; tools.
// [Generate] makes one from a seed. [Play] runs it on the host, and [Predict] says
// what must come of it: an executable form of abi/README.md, which shares no
// code with the host and does the plainest thing everywhere. Both give the same
// account, line by line: what each hook was shown, what the caller was told, what
// the model was asked, how the run ended.
//
// What no prediction is needed for is checked as a property. A run that pauses comes
// to what the same run without pauses comes to; one that is kept in a journal and killed
// at a write, to what the undisturbed one does; a streamed one to the messages of
// one that is not, of which its chunks are the text. Played twice, a composition
// does the same, and as WebAssembly it uses the same fuel.
//
// A seed that fails is shrunk: entries, hooks, replies and calls are taken away
// as long as it goes on failing. What is left is printed as a Go literal for
// regressions_test.go.
package composition
