// Package gateway runs agents for clients of other protocols: OpenAI's chat completions and
// AG-UI. It translates requests and events, and package runs executes the runs.
package gateway
