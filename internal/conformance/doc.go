// Package conformance runs the golden cases of testdata/cases: conversations
// that say what an agent with some middlewares does.
//
// A case is a txtar file. Its head says which behaviour it guards. Its files:
//
//	agent.yaml       the agent, as agent-runner reads it; middlewares name modules below. Optional. Beside
//	                 that, "runs: 2" runs it twice with the same messages, "given: […]" are
//	                 middlewares of its run beside those of the agent, "resumed: {…}" is what it has
//	                 become when a paused run goes on, and "agents: {NAME: …}" are agents that are its tools,
//	                 or with "transfer: true" those that it hands over to
//	NAME.go          a module: a package with a type Middleware that has the hooks it wants
//	NAME.ts          the same module in TypeScript: where all modules have one, the case is also run with those
//	NAME.wat         not run: the source of testdata/modules/NAME.wasm, where a case needs raw Wasm
//	tools            one tool a line, "name: result", "name! error" or "name!! panic"; without it "t: t-ok".
//	                 "name after other: …" waits until the other's result was told, "name cancels: …" ends the run,
//	                 "name streams: a|b" says its result in pieces, "name streams! a|b" fails with the last.
//	                 One that stands there twice answers its calls in turn
//	messages         the conversation so far; without it "user: hi"
//	answers          what the run's interrupts are answered with: a line of JSON a pause, for all that wait,
//	                 or "#id JSON" for the one around the tool call of that id
//	model            the model's replies in their order, one a line
//	request N        what the model saw in call N: expected
//	told N           the tools it was told of in call N: expected
//	asked            which model was asked, call by call, with its parameters: expected
//	events [TYPES]   the events: expected. TYPES are some of package abi's, separated by
//	                 commas; without them message,tool_call,tool_result,custom,fault,run_paused,run_finished
//	client [TYPES]   what a client of AG-UI was sent, without ids and times: expected
//	state            the run's messages at its end: expected
//	error            the start is refused, with a text that holds this: expected
//
// A message is written on one line, as "role: text [tool#id {arguments}] …",
// "tool#id: text" or, for anything else, as its JSON.
//
// A case is named ORIGIN-ROW-what, after the row of the [Catalogue] whose
// behaviour it shows, or own-what if it guards a rule of this project alone.
// docs/conformance.md is written from the catalogues; go generate does it.
//
// All Go modules of all cases are built into one WebAssembly module, once;
// which of them an entry is, its configuration says. See [Suite]. They are built
// twice, for the native transport and as a plug-in of Extism's, and every case
// passes on both.
package conformance
