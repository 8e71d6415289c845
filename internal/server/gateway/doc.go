// Package gateway runs agents for clients of other protocols: the model APIs of OpenAI and
// Anthropic, and AG-UI. It translates requests and events, and package runs executes the runs.
package gateway
