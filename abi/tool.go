package abi

import (
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Tool describes a tool to the model.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Parameters  JSON   `json:"parameters,omitempty"` // a JSON Schema
	// Owner is "host" for the agent's own tools, or the name of the entry that added the
	// tool. The host sets it.
	Owner string `json:"owner,omitempty"`
	// Idempotent marks a tool that can be called again if it is unknown whether a call
	// happened.
	Idempotent bool `json:"idempotent,omitempty"`
	// ReadOnly reports that the tool is declared to change nothing, for example with MCP's
	// readOnlyHint. The host does not check it.
	ReadOnly bool `json:"read_only,omitempty"`
	// Destructive reports that the tool is declared to be able to delete or overwrite something,
	// for example with MCP's destructiveHint. The host does not check it.
	Destructive bool `json:"destructive,omitempty"`
}

// A StateTool is a tool in the input of a state hook. Active reports whether the model is
// offered the tool.
type StateTool struct {
	Tool
	Active bool `json:"active"`
}

// A ToolsPatch changes a list of tools, by additions and removals or by a new list. The
// zero value changes nothing.
type ToolsPatch struct {
	Add     []Tool
	Remove  []string
	Replace []Tool // used if Whole is set
	Whole   bool
}

// A toolsObject is the encoding of a ToolsPatch that is not whole.
type toolsObject struct {
	Add    []Tool   `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

// IsZero reports whether the patch changes nothing.
func (p ToolsPatch) IsZero() bool { return !p.Whole && len(p.Add) == 0 && len(p.Remove) == 0 }

// MarshalJSON writes {"add", "remove"} or an array of tools.
func (p ToolsPatch) MarshalJSON() ([]byte, error) {
	if p.Whole {
		return jsoncodec.AppendValue(nil, append([]Tool{}, p.Replace...))
	}
	return jsoncodec.AppendValue(nil, toolsObject{p.Add, p.Remove})
}

// UnmarshalJSON reads {"add", "remove"}, an array of tools, or null for no change.
func (p *ToolsPatch) UnmarshalJSON(b []byte) error {
	*p = ToolsPatch{Whole: len(b) > 0 && b[0] == '['}
	if p.Whole {
		return unmarshal(b, &p.Replace)
	}
	var o toolsObject
	err := unmarshal(b, &o)
	p.Add, p.Remove = o.Add, o.Remove
	return err
}

// A Call is a tool call as the tool hooks receive it.
type Call struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Arguments  string `json:"arguments"` // a JSON object in a string, exactly as the tool receives it
	Owner      string `json:"owner,omitempty"`
	Idempotent bool   `json:"idempotent,omitempty"`
	// OriginalArguments holds the model's arguments if hooks changed them (after_tool).
	OriginalArguments string `json:"original_arguments,omitempty"`
	// By is set if a module made the call instead of the model. Such a call is not part
	// of the conversation.
	By *By `json:"by,omitempty"`
}

// By identifies the module that made a call through the import "tool".
type By struct {
	Entry string `json:"entry"`
	Hook  Hook   `json:"hook"`
	// Call is the ID of the tool call that the hook was handling, or empty if there was
	// none.
	Call string `json:"call,omitempty"`
}

// A Result is the result of a tool call.
type Result struct {
	Content Content `json:"content"`
	IsError bool    `json:"is_error,omitempty"`
	Extra   JSON    `json:"extra,omitempty"` // an object for modules; never sent to a model
	// Labels names the sources of the result's text, sorted. The host sets it, in the input of modules whose
	// description has labels.
	Labels []string `json:"labels,omitempty"`
}

// TextResult returns a result whose content is a string.
func TextResult(text string) *Result { return &Result{Content: Text(text)} }

// ErrorResult returns an error result whose content is a string.
func ErrorResult(text string) *Result { return &Result{Content: Text(text), IsError: true} }
