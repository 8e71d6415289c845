package httpapi

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/server/agentmodel"
)

// openAIPaths and anthropicPaths match the paths of the model APIs, including those that the server does not
// have. Their clients ignore errors in other formats.
var (
	openAIPaths = regexp.MustCompile(
		`^/v1/(chat|models|responses|completions|embeddings|audio|images|files|batches|moderations|assistants)(/|$)`,
	)
	anthropicPaths = regexp.MustCompile(`^/v1/messages(/|$)`)
)

// ForOpenAI returns the problem with the error in OpenAI's format: a copy, unless the problem
// already has it.
func (p *Problem) ForOpenAI() *Problem {
	if p.OpenAI != nil {
		return p
	}
	code := p.Code()
	e := agentmodel.Error{Status: p.Status}
	out := *p
	out.OpenAI = &api.OpenAIError{Message: p.Detail, Type: e.Type(), Code: &code}
	return &out
}

// An anthropicError is an error in Anthropic's format.
type anthropicError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string   `json:"type"`
		Message string   `json:"message"`
		Details abi.JSON `json:"details,omitempty"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

// forAnthropic returns the problem in Anthropic's format, which has no room for the other fields.
func (p *Problem) forAnthropic(request string) *anthropicError {
	e := agentmodel.Error{Status: p.Status}
	out := &anthropicError{Type: "error", RequestID: request}
	out.Error.Type, out.Error.Message = e.AnthropicType(), cmp.Or(p.Detail, p.Title)
	if p.OpenAI == nil || p.OpenAI.Param == nil {
		return out
	}
	param := *p.OpenAI.Param
	if !strings.HasPrefix(out.Error.Message, param+":") {
		out.Error.Message = param + ": " + out.Error.Message
	}
	if param == messages.FieldThread {
		out.Error.Details = abi.JSON(messages.ThreadDetails)
	}
	return out
}
