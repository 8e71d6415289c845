// Package agentmodel serves agents as models of the APIs of OpenAI and Anthropic. It translates a
// request into the input of a run: messages, tools, parameters, and answers to interrupts. It
// writes the events of the run as the response, whole or streamed. The gateway implements the
// protocols; see [wire.Protocol].
//
// The text of a response is the text of all steps of the run, separated by blank lines. If the
// request asks for a format, it is only the text of the final step. The client runs the tools of
// its request. If the model calls such tools, and no middleware denies the calls, the run pauses
// and the response ends with the calls. Their IDs contain the ID of the run, so that the next
// request, which ends with their results, resumes the run. The agent's other tools, their results
// and the intermediate steps stay on the server. The package does not depend on the server.
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
	// tools lists the types of tools that are functions, which the client runs. "" is a missing
	// type.
	tools []string
	// fixed has the checks of the fields of requests that do not reach the model, by field name.
	fixed map[string]check
	// optionalUsage means that a stream reports the usage only if the request asks for it.
	optionalUsage bool
	// idPrefix and the ID of the run form the ID of a response. If idPrefix is empty, each response
	// has a new ID.
	idPrefix string
	// stores means that requests may continue the conversations of earlier responses, which the
	// server stores.
	stores bool
	// misplaced lists parameters of other protocols that requests must not have. The codec ignores
	// them.
	misplaced []string
}

// Chat returns the protocol of OpenAI's chat completions.
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

// Responses returns the protocol of OpenAI's Responses API.
func Responses() *Protocol {
	return &Protocol{
		Protocol: responses.Protocol{}, tools: []string{"function"}, idPrefix: "resp_", stores: true,
		misplaced: []string{"max_tokens", "response_format", "reasoning_effort", "verbosity"},
		fixed: merged(openAI, map[string]check{
			"store":          only("false", "true"), // runs are stored
			"prompt":         only(),
			"background":     only("false"),
			"include":        only("[]", `["reasoning.encrypted_content"]`), // answers have no encrypted reasoning
			"truncation":     only(`"disabled"`),
			"max_tool_calls": only(),
			"text":           members("format", "verbosity"), // the codec turns these members into parameters
			"reasoning":      members("effort"),
		}),
	}
}

// Messages returns the protocol of Anthropic's Messages API.
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

// openAI has the checks of the fields that both APIs of OpenAI have.
var openAI = map[string]check{
	"store":                  only("false"),
	"user":                   ignored,
	"safety_identifier":      ignored,
	"prompt_cache_key":       ignored,
	"prompt_cache_retention": ignored,
	"stream_options":         members("include_usage", "include_obfuscation"),
	"top_logprobs":           only("0"),
}
