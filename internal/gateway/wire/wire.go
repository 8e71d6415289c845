// Package wire defines the interfaces between the gateway and the protocols of model APIs. The packages below it
// implement the protocols: chat (OpenAI's chat completions), responses (OpenAI's Responses API) and messages
// (Anthropic's Messages API).
//
// A request or an answer is kept as the text that was received. Modules see it as messages, tools, parameters and
// chunks of the ABI. Only the changes of modules are encoded; everything else, including fields that the gateway does
// not read, keeps its bytes and its order.
package wire

import (
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// A Protocol is the protocol of a model API. It has no state, and its methods may be called concurrently. The bodies
// that they parse are untrusted.
type Protocol interface {
	// ParseRequest parses the body of a request. The body is not copied. The error is a *Error with
	// CodeInvalid, which names the field at fault.
	ParseRequest(body []byte) (Request, error)
	// ParseAnswer parses the body of a whole answer with status 200. The error is a *Error with
	// CodeUpstream.
	ParseAnswer(body []byte) (Answer, error)
	// NewRequest returns the body of a new request that makes the call, whose messages may come from answers of other
	// protocols. Reasoning that only another API can read is left out. The error is a *Error with CodeInvalid, which
	// names the field that the protocol does not support.
	NewRequest(call *Call) ([]byte, error)
	// NewAnswer returns the body of an answer that no upstream of the protocol sent, such as the answer of a module.
	NewAnswer(res *abi.Response, model string) []byte
	// NewStream returns the codec of one streamed answer.
	NewStream(model string) Stream
	// NewWriter returns a writer of one streamed answer that no upstream of the protocol sends.
	NewWriter(model string) Writer
	// Error returns a failure as the status and body of a response. The status is one that
	// clients of the protocol do not retry, unless the failure is temporary.
	Error(err *Error) (status int, body []byte)
}

// A Cacher is a Protocol whose clients can mark the parts of a request that the upstream caches.
type Cacher interface {
	// CachePrefix returns the blocks of a request up to its last mark. It returns none if the request has no mark.
	CachePrefix(body []byte) []CacheBlock
}

// A CacheBlock is a part of a request that an upstream caches.
type CacheBlock struct {
	Owner string // the role or the list that has the block
	Text  []byte // the text that the upstream compares
}

// A Call is a request in the terms of the ABI.
type Call struct {
	// Messages have IDs that are unique in the request. Instructions come first, with
	// [abi.RoleSystem] or [abi.RoleDeveloper]. A result of a tool is a message of [abi.RoleTool],
	// also where the protocol has it within a user's message. A part or an item that the ABI does not
	// define, such as signed reasoning, is a part of its type with its fields unchanged. See [Opaque].
	Messages []abi.Message
	// Tools has the named tools that the client runs. Tools that the upstream runs, such as a web search,
	// are not listed and stay in the request.
	Tools []abi.Tool
	Model string
	// Params are the other fields of the request, by their OpenAI chat names where there is an
	// equivalent (temperature, top_p, max_tokens, stop, tool_choice, …), otherwise by their own.
	Params abi.Params
	Stream bool
}

// A Request is a parsed request.
type Request interface {
	// Call returns the request in the terms of the ABI. The caller does not change it.
	Call() *Call
	// Encode returns the body to send for the changed call next. A message of next that has the ID of
	// a message of Call and equals it keeps its bytes; so does each part that is equal. A message
	// with another ID is new. If nothing changed, the body is the one that was parsed. The error is
	// a *Error with CodeModule if next cannot be sent: it changed an opaque item, left a call
	// without its result, or has a role or part that the protocol does not have.
	Encode(next *Call) ([]byte, error)
}

// An Answer is a whole answer of the upstream.
type Answer interface {
	Response() *abi.Response
	// Encode returns the body for the client with the message of next and the calls that were
	// denied, by ID, each with the text that replaces it. If nothing changed, the body is the one that
	// was parsed. The error is a *Error with CodeModule.
	Encode(next *abi.Response, denied map[string]string) ([]byte, error)
}

// Opaque reports whether a part belongs to the upstream: modules may read it, but must return it
// unchanged, in its place. Every part whose type the ABI does not define is opaque.
func Opaque(p *abi.Part) bool {
	switch p.Type {
	case abi.PartText, abi.PartImage, abi.PartAudio, abi.PartFile:
		return false
	}
	return true
}

// A Code classifies an [Error].
type Code string

// The codes of errors.
const (
	CodeInvalid  Code = "invalid_request" // the client's request is not understood
	CodeAuth     Code = "authentication"  // the client's key is missing or wrong
	CodeNotFound Code = "not_found"       // no route for the model, or no such path
	CodeTooLarge Code = "too_large"       // the request is larger than the limit
	CodeDenied   Code = "denied"          // a module or a limit rejects the request; not temporary
	CodeBusy     Code = "busy"            // a limit is reached that a later request may not reach; temporary
	CodeModule   Code = "module_failed"   // a module failed, or made a change that is not allowed
	CodeUpstream Code = "upstream_failed" // the upstream cannot be reached, or its answer is not understood
)

// An Error is a failure that the gateway reports to a client.
type Error struct {
	Code    Code
	Message string // for the client's user: the problem and a remedy
	Param   string // the field of the request at fault; empty if there is none
	// RetryAfter is the time after which the client can repeat the request, for CodeBusy. The default is
	// a second.
	RetryAfter time.Duration
	// Reason replaces Code in the errors of protocols that have a code for programs. Optional.
	Reason string
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an error with the given code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
