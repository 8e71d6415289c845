// Package conformance runs the golden cases of tck/cases: scripted conversations that specify
// the behavior of an agent with some middlewares.
//
// A case is a txtar file. Its head names the behavior that it guards. Its files:
//
//	agent.yaml       optional: the agent in the format of agent-runner; middlewares name modules below. Keys for
//	                 tests: "runs: 2" runs the agent twice with the same messages, "given: […]" adds middlewares
//	                 to its run, "resumed: {…}" is the agent that resumes a paused run, and "agents: {NAME: …}"
//	                 are agents that are its tools or, with "transfer: true", that it can transfer to
//	NAME.go          a module: a package with a type Middleware whose methods are its hooks
//	NAME.ts          the same module in TypeScript; if all modules have one, the case also runs with those
//	NAME.wat         ignored: the source of testdata/modules/NAME.wasm, for cases that need raw Wasm
//	tools            one tool a line, "name: result", "name! error" or "name!! panic"; default "t: t-ok".
//	                 "name after other: …" waits until the other's result was reported, "name cancels: …" cancels
//	                 the run, "name streams: a|b" streams its result in chunks, and "name streams! a|b" fails with
//	                 the last one as the error. Several lines for a tool answer its calls in order
//	messages         the conversation so far; default "user: hi"
//	answers          the answers to the run's interrupts: one line of JSON for each pause, for all its interrupts,
//	                 or "#id JSON" for the interrupt of the tool call with that id
//	model            the model's replies in order, one a line
//	request N        expected: the messages of model call N
//	told N           expected: the tools that model call N offers
//	asked            expected: the model and parameters of each model call
//	events [TYPES]   expected: the events. TYPES are types of package abi, separated by commas; default
//	                 message,tool_call,tool_result,custom,fault,run_paused,run_finished
//	client [TYPES]   expected: the events that an AG-UI client receives, without ids and times
//	state            expected: the messages at the end of the run
//	error            expected: the agent cannot be built, with an error that contains this text
//
// A message is written on one line, as "role: text [tool#id {arguments}] …", "tool#id: text" or, for
// any other message, as its JSON.
//
// A case is named ORIGIN-ROW-what, after the row of the [Catalogue] whose behavior it shows, or
// own-what if it guards a rule of this project only. go generate writes docs/conformance.md from the
// catalogues.
//
// All Go modules of all cases are built once, into one WebAssembly module; an entry's configuration
// selects one of them. See [Suite]. The module is built for two transports, the native one and as an
// Extism plug-in, and every case passes on both.
package conformance
