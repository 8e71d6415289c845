package abi

// A Description is a module's answer to the hook describe.
type Description struct {
	Name        string `json:"name,omitempty"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	// Requires names the hooks and features that the module needs. The host rejects the
	// module if it does not support one of them.
	Requires []string `json:"requires,omitempty"`
	// Hooks lists the exported hooks to call. It defaults to all exported hooks.
	Hooks []Hook `json:"hooks,omitzero"`
	// Messages selects how inputs contain lists of messages: "full", the default, "lazy" or "none".
	Messages string `json:"messages,omitempty"`
	// Events lists the event types that observe receives. It defaults to all types except
	// chunk.
	Events []EventType `json:"events,omitzero"`
	// HoldStream holds back the chunks of a wrapped model call until the wrapper returns.
	HoldStream bool `json:"hold_stream,omitempty"`
	// Labels asks for the labels of messages and results.
	Labels bool `json:"labels,omitempty"`
	// ConfigSchema is a JSON Schema of the module's configuration. It must not refer to
	// other documents.
	ConfigSchema JSON `json:"config_schema,omitempty"`
}
