package agui

import (
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// MaxInput is the maximum size of a client's input, in bytes.
const MaxInput = 8 << 20

// An Input is the client's request to start or resume a run.
type Input struct {
	ThreadID string
	RunID    string
	// Messages holds the conversation without activities and reasoning, which are only for front
	// ends.
	Messages []abi.Message
	// Raw holds all messages unchanged, for [Options].
	Raw []json.RawMessage
	// Errors holds the errors of the front end's tools by the id of their call. The message of such a
	// call has the error as its content if the client sent none.
	Errors map[string]string
	// Tools are the tools that the front end runs.
	Tools []abi.Tool
	// State, Context and ForwardedProps hold the client's data.
	State, Context, ForwardedProps json.RawMessage
	// Answers holds the answers to interrupts by interrupt id.
	Answers map[string]json.RawMessage
}

type inputFile struct {
	ThreadID        string            `json:"threadId"`
	RunID           string            `json:"runId"`
	ProtocolVersion string            `json:"protocolVersion"`
	ParentRunID     string            `json:"parentRunId"`
	State           json.RawMessage   `json:"state"`
	Messages        []json.RawMessage `json:"messages"`
	Tools           []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Metadata    json.RawMessage `json:"metadata"`
	} `json:"tools"`
	Context        json.RawMessage `json:"context"`
	ForwardedProps json.RawMessage `json:"forwardedProps"`
	Resume         []struct {
		InterruptID string          `json:"interruptId"`
		Status      string          `json:"status"`
		Payload     json.RawMessage `json:"payload"`
		Metadata    json.RawMessage `json:"metadata"`
	} `json:"resume"`
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// ParseInput parses a client's input: a RunAgentInput in JSON of at most MaxInput bytes. The error
// is an *abi.Error that says what is wrong.
func ParseInput(b []byte) (*Input, error) {
	if len(b) > MaxInput {
		return nil, &abi.Error{
			Code:    abi.CodeLimit,
			Message: fmt.Sprintf("the input has %d bytes; at most %d are allowed", len(b), MaxInput),
		}
	}
	var f inputFile
	if _, err := abijson.Decode(b, &f); err != nil {
		return nil, invalid("%v", err)
	}
	if f.ThreadID == "" || f.RunID == "" {
		return nil, invalid("an input needs a threadId and a runId")
	}
	in := &Input{
		ThreadID:       f.ThreadID,
		RunID:          f.RunID,
		Raw:            f.Messages,
		State:          f.State,
		Context:        f.Context,
		ForwardedProps: f.ForwardedProps,
	}
	for i, raw := range f.Messages {
		m, failure, ok, err := messageFrom(raw)
		if err != nil {
			return nil, invalid("messages[%d]: %v", i, err)
		}
		if ok {
			in.Messages = append(in.Messages, m)
		}
		if failure != "" {
			if in.Errors == nil {
				in.Errors = map[string]string{}
			}
			in.Errors[m.ToolCallID] = failure
		}
	}
	for i, t := range f.Tools {
		d := abi.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
		if err := contract.CheckTool(&d); err != nil {
			return nil, invalid("tools[%d]: %v", i, err)
		}
		in.Tools = append(in.Tools, d)
	}
	for i, r := range f.Resume {
		if in.Answers == nil {
			in.Answers = map[string]json.RawMessage{}
		}
		answer := r.Payload
		switch {
		case r.InterruptID == "":
			return nil, invalid("resume[%d]: needs an interruptId", i)
		case r.Status == "cancelled":
			answer = json.RawMessage("false") // rejects a gated tool call; other hooks and tools receive false
		case r.Status != "resolved":
			return nil, invalid("resume[%d]: status is %q; want resolved or cancelled", i, r.Status)
		case len(answer) == 0:
			answer = json.RawMessage("null")
		}
		if _, twice := in.Answers[r.InterruptID]; twice {
			return nil, invalid("resume[%d]: answers %q a second time", i, r.InterruptID)
		}
		in.Answers[r.InterruptID] = answer
	}
	return in, nil
}

// messageFrom parses an AG-UI message. failure is the error of a tool message. ok is false if the
// message is not for models.
func messageFrom(raw json.RawMessage) (out abi.Message, failure string, ok bool, err error) {
	var m struct {
		ID         string          `json:"id"`
		Role       string          `json:"role"`
		Name       string          `json:"name"`
		Content    json.RawMessage `json:"content"`
		ToolCalls  []toolCall      `json:"toolCalls"`
		ToolCallID string          `json:"toolCallId"`
		Error      string          `json:"error"`
	}
	if _, err := abijson.Decode(raw, &m); err != nil {
		return out, "", false, err
	}
	switch m.Role {
	case "activity", "reasoning":
		return out, "", false, nil
	case abi.RoleTool:
		failure = m.Error
	}
	out = abi.Message{ID: m.ID, Role: m.Role, Name: m.Name, ToolCallID: m.ToolCallID}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, abi.NewToolCall(c.ID, c.Function.Name, c.Function.Arguments))
	}
	var text *string
	var parts []part
	switch {
	case len(m.Content) == 0:
	case m.Content[0] == '[':
		if err := json.Unmarshal(m.Content, &parts); err != nil {
			return out, "", false, err
		}
		var list []abi.Part
		for i := range parts {
			p, err := parts[i].toABI()
			if err != nil {
				return out, "", false, err
			}
			list = append(list, p)
		}
		out.Content = abi.Parts(list...)
	default:
		if err := json.Unmarshal(m.Content, &text); err != nil {
			return out, "", false, fmt.Errorf("content: want a string or parts")
		}
		if text != nil {
			out.Content = abi.Text(*text)
		}
	}
	if failure != "" && out.Content.String() == "" && !out.Content.IsParts() {
		out.Content = abi.Text(failure)
	}
	return out, failure, true, contract.CheckMessage(&out)
}
