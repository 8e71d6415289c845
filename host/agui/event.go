package agui

import "encoding/json"

// The types of AG-UI's events that this package sends.
const (
	typeRunStarted       = "RUN_STARTED"
	typeRunFinished      = "RUN_FINISHED"
	typeRunError         = "RUN_ERROR"
	typeStepStarted      = "STEP_STARTED"
	typeStepFinished     = "STEP_FINISHED"
	typeTextStart        = "TEXT_MESSAGE_START"
	typeTextContent      = "TEXT_MESSAGE_CONTENT"
	typeTextEnd          = "TEXT_MESSAGE_END"
	typeReasoningStart   = "REASONING_START"
	typeReasoningEnd     = "REASONING_END"
	typeReasoningMessage = "REASONING_MESSAGE_START"
	typeReasoningContent = "REASONING_MESSAGE_CONTENT"
	typeReasoningDone    = "REASONING_MESSAGE_END"
	typeCallStart        = "TOOL_CALL_START"
	typeCallArgs         = "TOOL_CALL_ARGS"
	typeCallEnd          = "TOOL_CALL_END"
	typeCallResult       = "TOOL_CALL_RESULT"
	typeMessages         = "MESSAGES_SNAPSHOT"
	typeSubagentStarted  = "SUBAGENT_STARTED"
	typeSubagentFinished = "SUBAGENT_FINISHED"
	typeSubagentError    = "SUBAGENT_ERROR"
	typeCustom           = "CUSTOM"
)

// protocolVersion is the version of the protocol that RUN_STARTED announces.
const protocolVersion = "1.0"

// An event is an AG-UI event. Its type determines its fields.
type event struct {
	Type      string `json:"type"`
	Timestamp int64  `json:"timestamp,omitempty"` // Unix time, milliseconds
	Subagent  string `json:"subagentRunId,omitempty"`

	ThreadID        string `json:"threadId,omitempty"`
	RunID           string `json:"runId,omitempty"`
	ProtocolVersion string `json:"protocolVersion,omitempty"`
	ParentRunID     string `json:"parentRunId,omitempty"`

	StepName string `json:"stepName,omitempty"`

	MessageID       string  `json:"messageId,omitempty"`
	Role            string  `json:"role,omitempty"`
	Delta           *string `json:"delta,omitempty"`
	ToolCallID      string  `json:"toolCallId,omitempty"`
	ToolCallName    string  `json:"toolCallName,omitempty"`
	ParentMessageID string  `json:"parentMessageId,omitempty"`
	Content         any     `json:"content,omitempty"` // a string or parts

	Messages []json.RawMessage `json:"messages,omitempty"`

	Name             string `json:"name,omitempty"`
	Value            any    `json:"value,omitempty"`
	ParentSubagent   string `json:"parentSubagentRunId,omitempty"`
	ParentToolCallID string `json:"parentToolCallId,omitempty"`

	Message string   `json:"message,omitempty"`
	Code    string   `json:"code,omitempty"`
	Result  any      `json:"result,omitempty"`
	Outcome *outcome `json:"outcome,omitempty"`
	Usage   []usage  `json:"usage,omitempty"`

	Metadata map[string]any `json:"metadata,omitempty"`
}

// An outcome is the outcome of a run or of a sub-agent's run.
type outcome struct {
	Type         string      `json:"type"` // "success", "interrupt", "cancelled" or "suspended"
	Interrupts   []interrupt `json:"interrupts,omitempty"`
	InterruptIDs []string    `json:"interruptIds,omitempty"`
}

// An interrupt is a question whose answer a run waits for.
type interrupt struct {
	ID             string         `json:"id"`
	Subagent       string         `json:"subagentRunId,omitempty"`
	Reason         string         `json:"reason"`
	Message        string         `json:"message,omitempty"`
	ToolCallID     string         `json:"toolCallId,omitempty"`
	ResponseSchema map[string]any `json:"responseSchema,omitempty"`
	Metadata       map[string]any `json:"metadata,omitempty"`
}

type usage struct {
	Model        string `json:"model,omitempty"`
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	TotalTokens  int64  `json:"totalTokens"`
}

// A message is an AG-UI message.
type message struct {
	ID         string         `json:"id"`
	Role       string         `json:"role"`
	Subagent   string         `json:"subagentRunId,omitempty"`
	Name       string         `json:"name,omitempty"`
	Content    any            `json:"content,omitempty"` // a string or parts
	ToolCalls  []toolCall     `json:"toolCalls,omitempty"`
	ToolCallID string         `json:"toolCallId,omitempty"`
	Error      string         `json:"error,omitempty"`
	Metadata   map[string]any `json:"metadata,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A part is one part of a message's content.
type part struct {
	Type   string  `json:"type"` // "text", "image", "audio", "video" or "document"
	Text   string  `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`
}

type source struct {
	Type     string `json:"type"` // "data", "url" or "file"
	Value    string `json:"value"`
	MIMEType string `json:"mimeType,omitempty"`
}
