package httpapi

import (
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/internal/server/chat"
)

// openAIPaths matches the paths of OpenAI's API, including those that the server does not have.
// OpenAI's clients ignore errors in other formats.
var openAIPaths = regexp.MustCompile(`^/v1/(chat|models|responses|completions|embeddings|audio|images|files|batches|moderations|assistants|threads)(/|$)`)

// ForOpenAI returns a copy of a problem that also has the error in OpenAI's format.
func (p *Problem) ForOpenAI() *Problem {
	if p.OpenAI != nil {
		return p
	}
	code := strings.TrimPrefix(p.Type, ProblemType)
	e := chat.Error{Status: p.Status}
	out := *p
	out.OpenAI = &OpenAIError{Message: p.Detail, Type: e.Type(), Code: &code}
	return &out
}

// OpenAIError is an error in OpenAI's format.
type OpenAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}
