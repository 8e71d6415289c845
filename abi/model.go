package abi

// Params holds the parameters of a model call by their OpenAI names (temperature,
// max_tokens, stop, …). Patches are merged key by key; null removes a parameter.
type Params map[string]JSON

// A Request is a model call as the host will send it.
type Request struct {
	Messages List   `json:"messages"`
	Tools    []Tool `json:"tools"`
	Model    string `json:"model"`
	Params   Params `json:"params,omitempty"`
	Stream   bool   `json:"stream,omitempty"`
}

// A RequestPatch changes the request of one model call.
type RequestPatch struct {
	Messages ListPatch  `json:"messages,omitzero"`
	Tools    ToolsPatch `json:"tools,omitzero"`
	Model    string     `json:"model,omitempty"`
	Params   Params     `json:"params,omitempty"`
}

// IsZero reports whether the patch changes nothing.
func (p RequestPatch) IsZero() bool {
	return p.Messages.IsZero() && p.Tools.IsZero() && p.Model == "" && len(p.Params) == 0
}

// The finish reasons of a model's response.
const (
	FinishStop      = "stop"
	FinishToolCalls = "tool_calls"
	FinishLength    = "length"
	FinishFilter    = "content_filter"
)

// A Response is a model's response.
type Response struct {
	Message      Message `json:"message"`
	FinishReason string  `json:"finish_reason,omitempty"`
	Usage        *Usage  `json:"usage,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}
