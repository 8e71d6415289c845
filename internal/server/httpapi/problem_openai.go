package httpapi

import (
	"regexp"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/chat"
)

// openAIPaths matches the paths of OpenAI's API, including those that the server does not have.
// OpenAI's clients ignore errors in other formats.
var openAIPaths = regexp.MustCompile(
	`^/v1/(chat|models|responses|completions|embeddings|audio|images|files|batches|moderations|assistants|threads)(/|$)`,
)

// ForOpenAI returns the problem with the error in OpenAI's format: a copy, unless the problem
// already has it.
func (p *Problem) ForOpenAI() *Problem {
	if p.OpenAI != nil {
		return p
	}
	code := p.Code()
	e := chat.Error{Status: p.Status}
	out := *p
	out.OpenAI = &api.OpenAIError{Message: p.Detail, Type: e.Type(), Code: &code}
	return &out
}
