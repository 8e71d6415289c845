// Package agentmodel serves agents as models of the APIs of OpenAI and Anthropic. It reads requests in the
// terms of a run: its messages, tools, parameters and answers. It writes the events of the run as an
// answer, whole or streamed. The protocols themselves are those of the gateway, [wire.Protocol].
//
// An answer is the text of all steps of the run, with a blank line between them, or only the final one if the
// request asks for a format. Tools of the request run in the client. If the model calls them, and the gates
// allow it, the run pauses and the answer ends with these calls. The next request, which ends with their
// results, continues the same run, which the IDs of the calls name. The agent's other tools, their results and
// intermediate steps stay on the server. The package does not depend on the server.
package agentmodel

import (
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/chat"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
)

// A Protocol is the protocol of a model API.
type Protocol struct {
	wire.Protocol
	// tools are the types of tools that the client runs and that are functions.
	tools []string
	// fixed are the fields of requests that do not reach the model, with the check of their values.
	fixed map[string]check
	// optionalUsage says that streams have the usage only if the request asks for it.
	optionalUsage bool
	// idPrefix begins the ID of an answer that is its run's. If it is empty, each answer has a new ID.
	idPrefix string
	// misplaced are parameters of other protocols, whose codec does not report them.
	misplaced []string
}

// Chat is OpenAI's chat completions.
func Chat() *Protocol {
	return &Protocol{
		Protocol: chat.Protocol{}, tools: []string{"", "function"}, optionalUsage: true, idPrefix: "chatcmpl-",
		fixed: merged(openAI, map[string]check{
			"n":                  only("1"),
			"logprobs":           only("false"),
			"modalities":         only(`["text"]`),
			"audio":              only(),
			"prediction":         only(),
			"web_search_options": only(),
			"functions":          only(),
			"function_call":      only(),
		}),
	}
}

// Responses is OpenAI's Responses API.
func Responses() *Protocol {
	return &Protocol{
		Protocol: responses.Protocol{}, tools: []string{"function"},
		misplaced: []string{"max_tokens", "response_format", "reasoning_effort", "verbosity"},
		fixed: merged(openAI, map[string]check{
			"previous_response_id": only(), // the codec rejects them; there are no threads
			"conversation":         only(),
			"prompt":               only(),
			"background":           only("false"),
			"include":              only("[]", `["reasoning.encrypted_content"]`), // answers have no reasoning
			"truncation":           only(`"disabled"`),
			"max_tool_calls":       only(),
			"text":                 members("format", "verbosity"), // which are parameters of their own
			"reasoning":            members("effort"),
		}),
	}
}

// Messages is Anthropic's Messages API.
func Messages() *Protocol {
	return &Protocol{
		Protocol: messages.Protocol{}, tools: []string{"", "custom"},
		fixed: map[string]check{
			"thread":             only(),
			"thinking":           only(`{"type":"disabled"}`),
			"cache_control":      ignored,
			"container":          only(),
			"context_management": only(),
			"mcp_servers":        only("[]"),
			"output_config":      members("format", "effort"),
		},
	}
}

// openAI are the fields that both APIs of OpenAI have.
var openAI = map[string]check{
	"store":                  only("false"),
	"user":                   ignored,
	"safety_identifier":      ignored,
	"prompt_cache_key":       ignored,
	"prompt_cache_retention": ignored,
	"stream_options":         members("include_usage", "include_obfuscation"),
	"top_logprobs":           only("0"),
}
