// Package chat implements OpenAI's chat completions for agents: it parses requests, and writes
// the events of a run as a completion, streamed or whole.
//
// The completion is the text of all steps of the run, with a blank line between them. Tools of
// the request run in the client. If the model calls them, and the gates allow it, the
// completion ends with these calls. The next request, which has their results after the same
// conversation, resumes the same run. The agent's other tools, their results and intermediate
// steps stay on the server. The package does not depend on the server.
package chat
