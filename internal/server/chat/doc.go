// Package chat serves OpenAI's chat completions, with agents in the place of models:
// any client of that API runs an agent, stream or not.
//
// A run's text is the completion: what the agent said in all its steps, a blank line
// between them. Tools that the request brings are the client's own: where the model
// calls them, after all gates, the completion ends with those calls, and the next
// request, with their results behind the same conversation, goes on with the same
// run. Its other tools, their results and the steps between stay on the server.
package chat
