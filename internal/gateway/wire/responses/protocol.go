package responses

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// Limits of requests and answers.
const (
	maxItems  = 100_000  // items of a request's input, and their parts
	maxBlocks = 10_000   // items of an answer, and blocks of text
	maxCalls  = 10_000   // tool calls of a request or of an answer
	maxTools  = 10_000   // tools of a request
	maxFields = 1_000    // fields of a request
	maxText   = 64 << 20 // bytes of an answer's text and arguments
)

// Protocol is the protocol of the Responses API.
type Protocol struct{}

var _ wire.Protocol = Protocol{}

// Error returns a failure in the shape of the API's errors. Codex and the SDKs retry 429 and 5xx, and Codex also
// retries 403. A failure that a retry would only repeat therefore has status 400.
func (Protocol) Error(err *wire.Error) (status int, body []byte) {
	status, kind := http.StatusBadRequest, "invalid_request_error"
	switch err.Code {
	case wire.CodeAuth:
		status = http.StatusUnauthorized
	case wire.CodeNotFound:
		status = http.StatusNotFound
	case wire.CodeTooLarge:
		status = http.StatusRequestEntityTooLarge
	case wire.CodeBusy:
		status, kind = http.StatusTooManyRequests, "rate_limit_error"
	case wire.CodeUpstream:
		status, kind = http.StatusBadGateway, "server_error"
	}
	param := raw("param", "null")
	if err.Param != "" {
		param = str("param", err.Param)
	}
	return status, newObject(field{"error", newObject(str("message", err.Message), str("type", kind), param,
		str("code", cmp.Or(err.Reason, string(err.Code))))})
}

// NewAnswer returns the body of an answer that no upstream of the protocol sent. Reasoning is omitted.
func (Protocol) NewAnswer(res *abi.Response, model string) []byte {
	var output [][]byte
	text, refusal := res.Message.Content.String(), wire.Refusal(&res.Message)
	if text != "" || refusal == "" && len(res.Message.ToolCalls) == 0 {
		output = append(output, newAdded(text))
	}
	if refusal != "" {
		output = append(output, messageItem(newID("msg_"), newPartOf(typeRefusal, refusal)))
	}
	for i := range res.Message.ToolCalls {
		output = append(output, newFunctionCall(&res.Message.ToolCalls[i]))
	}
	return newResponse(newID(idPrefix), model, output, res.FinishReason, res.Usage)
}

// newResponse returns a response that has ended.
func newResponse(id, model string, output [][]byte, finish string, u *abi.Usage) []byte {
	status, details := outcome(finish)
	if u == nil {
		u = &abi.Usage{}
	}
	usage := newObject(num("input_tokens", u.PromptTokens), raw("input_tokens_details", `{"cached_tokens":0}`),
		num("output_tokens", u.CompletionTokens), raw("output_tokens_details", `{"reasoning_tokens":0}`),
		num("total_tokens", u.TotalTokens))
	return newObject(append(responseStart(id, model, status), raw("incomplete_details", details),
		field{"output", rawjson.Array(output)}, field{"usage", usage})...)
}

// responseStart returns the fields of a response that are known when it begins.
func responseStart(id, model, status string) []field {
	return []field{
		str("id", id), str("object", "response"), num("created_at", time.Now().Unix()),
		str("status", status), str("model", model), raw("error", "null"), raw("instructions", "null"),
		raw("metadata", "{}"), raw("parallel_tool_calls", "true"), raw("temperature", "null"),
		raw("tool_choice", `"auto"`), raw("tools", "[]"), raw("top_p", "null"),
	}
}

// outcome returns the status and the incomplete_details of a response with a finish reason.
func outcome(finish string) (status, details string) {
	switch finish {
	case abi.FinishLength:
		return "incomplete", `{"reason":"max_output_tokens"}`
	case abi.FinishFilter:
		return "incomplete", `{"reason":"content_filter"}`
	}
	return "completed", "null"
}

// idPrefix begins the IDs of answers.
const idPrefix = "resp_"

// newAdded returns a message item that the gateway adds to an answer.
func newAdded(text string) []byte { return newMessage(addedID(text), text) }

// newMessage returns a message item of an answer.
func newMessage(id, text string) []byte { return messageItem(id, newPartOf(typeText, text)) }

// messageItem returns a message item of an answer, with one part.
func messageItem(id string, part []byte) []byte {
	return newObject(str("type", "message"), str("id", id), str("status", "completed"),
		str("role", "assistant"), field{"content", rawjson.Array([][]byte{part})})
}

// The types of the parts of an answer's messages.
const (
	typeText    = "output_text"
	typeRefusal = "refusal"
)

// newPartOf returns a part of a type for an answer's message.
func newPartOf(typ, text string) []byte {
	if typ == typeRefusal {
		return newObject(str("type", typ), str("refusal", text))
	}
	return newObject(str("type", typ), str("text", text), raw("annotations", "[]"), raw("logprobs", "[]"))
}

func newFunctionCall(c *abi.ToolCall) []byte {
	return newObject(str("type", "function_call"), str("id", newID("fc_")), str("status", "completed"),
		str("call_id", c.ID), str("name", c.Function.Name), str("arguments", c.Function.Arguments))
}

func newCustomCall(c *abi.ToolCall, input string) []byte {
	return newObject(str("type", "custom_tool_call"), str("id", newID("ctc_")), str("status", "completed"),
		str("call_id", c.ID), str("name", c.Function.Name), str("input", input))
}

func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }
