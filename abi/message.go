package abi

// The roles of messages.
const (
	RoleSystem    = "system"
	RoleDeveloper = "developer"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// The origins of messages. The origin of a module's message is OriginModule followed by
// the entry's name.
const (
	OriginUser   = "user"
	OriginModel  = "model"
	OriginTool   = "tool"
	OriginHost   = "host"
	OriginModule = "module:"
)

// The labels of messages, parts and results. A label names a source of their text: [OriginUser], [OriginModel],
// [OriginHost], LabelSystem, LabelTool followed by the name of a tool, or [OriginModule] followed by the name of an
// entry. LabelAny means all labels. The host replaces a set of more than 64 labels by LabelAny.
const (
	LabelSystem = "system"
	LabelTool   = "tool:"
	LabelAny    = "*"
)

// A Message is one message of the conversation in the format of the OpenAI chat API. The
// host sets ID and Origin. It ignores the values that a module sets, unless the same
// answer removed the message with that ID. The host sets Labels and PartLabels too, in the input of
// modules whose description has labels.
type Message struct {
	ID               string     `json:"id,omitempty"`
	Role             string     `json:"role"`
	Content          Content    `json:"content"`
	Name             string     `json:"name,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	Extra            JSON       `json:"extra,omitempty"` // an object for modules; never sent to a model
	Origin           string     `json:"origin,omitempty"`
	// Labels names the sources of the message's text, sorted.
	Labels []string `json:"labels,omitempty"`
	// PartLabels has the parts of the content whose labels differ from Labels, in ascending order.
	PartLabels []PartLabels `json:"part_labels,omitempty"`

	// Unknown holds the fields that this version does not define, unchanged.
	Unknown Fields `json:"-"`
}

// PartLabels has the labels of one part of a message's content.
type PartLabels struct {
	Part   int      `json:"part"` // index of the part
	Labels []string `json:"labels"`
}

// System returns a message with [RoleSystem] whose content is the string text.
func System(text string) Message { return Message{Role: RoleSystem, Content: Text(text)} }

// User returns a message with [RoleUser] whose content is the string text.
func User(text string) Message { return Message{Role: RoleUser, Content: Text(text)} }

// Assistant returns a message with [RoleAssistant] whose content is the string text.
func Assistant(text string) Message { return Message{Role: RoleAssistant, Content: Text(text)} }

// ToolMessage returns the message that answers a tool call.
func ToolMessage(callID, tool string, content Content) Message {
	return Message{Role: RoleTool, ToolCallID: callID, Name: tool, Content: content}
}

// MarshalJSON writes the known fields, then the unknown ones.
func (m Message) MarshalJSON() ([]byte, error) {
	type known Message
	return object(known(m), m.Unknown)
}

// UnmarshalJSON reads the known fields and stores the others in Unknown.
func (m *Message) UnmarshalJSON(b []byte) error {
	type known Message
	*m = Message{}
	return unmarshalObject(b, (*known)(m), &m.Unknown)
}

// A ToolCall is one call in an assistant's message. Its arguments are the model's string,
// unchanged.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // "function"
	Function FunctionCall `json:"function"`

	// Unknown holds the fields that this version does not define, unchanged.
	Unknown Fields `json:"-"`
}

// A FunctionCall is the name of a tool and its arguments, a JSON object in a string.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// NewToolCall returns a call of type "function".
func NewToolCall(id, name, arguments string) ToolCall {
	return ToolCall{ID: id, Type: "function", Function: FunctionCall{Name: name, Arguments: arguments}}
}

// MarshalJSON writes the known fields, then the unknown ones. An empty Type is written as "function".
func (c ToolCall) MarshalJSON() ([]byte, error) {
	type known ToolCall
	if c.Type == "" {
		c.Type = "function"
	}
	return object(known(c), c.Unknown)
}

// UnmarshalJSON reads the known fields and stores the others in Unknown.
func (c *ToolCall) UnmarshalJSON(b []byte) error {
	type known ToolCall
	*c = ToolCall{}
	return unmarshalObject(b, (*known)(c), &c.Unknown)
}
