package abi

// How much of a list of messages a module finds in its inputs.
const (
	MessagesFull = "full" // all of it, as items; the default without describe
	MessagesLazy = "lazy" // none: the module asks for the parts it wants
	MessagesNone = "none" // none, and it never asks
)

// A Description is what a module says of itself in answer to describe.
type Description struct {
	Name        string `json:"name,omitempty"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	// Requires names the hooks and features that the module cannot do
	// without; one that the host does not have refuses the module.
	Requires []string `json:"requires,omitempty"`
	// Hooks are those of the exports that are to be called; without it, all.
	Hooks    []Hook `json:"hooks,omitzero"`
	Messages string `json:"messages,omitempty"` // MessagesFull when empty
	// Events are the types of events for observe; without it, all but chunks.
	Events []EventType `json:"events,omitzero"`
	// HoldStream keeps chunks of a wrapped model call back until the wrapper returns.
	HoldStream bool `json:"hold_stream,omitempty"`
	// ConfigSchema is a JSON Schema of the module's configuration, without
	// references to other documents.
	ConfigSchema JSON `json:"config_schema,omitempty"`
}

// ConfigureInput is the input of configure.
type ConfigureInput struct {
	Entry  string `json:"entry"`
	Config JSON   `json:"config"`
}

// ConfigureAnswer is the answer of configure: empty.
type ConfigureAnswer struct{}
