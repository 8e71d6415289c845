// Package golden reads golden cases and compares what a host reported with what they expect. Package
// tck has the cases of the conformance kit; the test conversations of a module have the same format.
//
// A case is a txtar file. Its head names the behavior that it guards. It has these files:
//
//	agent.yaml       optional: the agent in the format of agent-runner; middlewares name modules below. Keys for
//	                 tests: "runs: 2" runs the agent twice with the same messages, "metadata: {…}" is the metadata
//	                 of its runs, "given: […]" adds middlewares to its run, and "resumed: {…}" is the agent that
//	                 resumes a paused run. "agents: {NAME: …}" are agents that it calls as tools or, with
//	                 "transfer: true", to which it can transfer the conversation
//	NAME.go          a module: a package with a type Middleware whose methods are its hooks
//	NAME.ts          the same module in TypeScript; if all modules have one, the case also runs with those
//	NAME.wat         ignored: the source of NAME.wasm, for cases that need raw Wasm
//	tools            one tool a line, "name: result", "name! error" or "name!! panic"; default "t: t-ok".
//	                 "name after other: …" waits until the other's result was reported, "name cancels: …" cancels
//	                 the run, "name streams: a|b" streams its result in chunks, and "name streams! a|b" streams a
//	                 and fails with the error b. Several lines for a tool answer its calls in order.
//	                 "name {"a":1}: …" states the arguments that the tool must receive. Without them, the tool
//	                 expects {} in the kit's cases, and accepts any in a module's conversations
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
package golden
