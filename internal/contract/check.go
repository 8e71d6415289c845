package contract

import (
	"errors"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// CheckMessage returns an error if the message's role is unknown. It also returns an error if a
// field is missing, malformed or not allowed for the role.
func CheckMessage(m *abi.Message) error {
	switch m.Role {
	case abi.RoleSystem, abi.RoleDeveloper, abi.RoleUser, abi.RoleAssistant:
		if m.ToolCallID != "" {
			return errors.New("a " + m.Role + " message has a tool_call_id; only tool messages do")
		}
	case abi.RoleTool:
		if m.ToolCallID == "" {
			return errors.New("a tool message needs a tool_call_id")
		}
	case "":
		return errors.New("a message needs a role")
	default:
		return errors.New("unknown role " + strconv.Quote(m.Role) + "; want system, developer, user, assistant or tool")
	}
	if len(m.ToolCalls) > 0 && m.Role != abi.RoleAssistant {
		return errors.New("a " + m.Role + " message has tool_calls; only assistant messages do")
	}
	if len(m.Extra) > 0 && m.Extra[0] != '{' && string(m.Extra) != "null" {
		return errors.New("extra must be an object")
	}
	return CheckContent(&m.Content)
}

// CheckContent returns an error if one of the content's parts is invalid.
func CheckContent(c *abi.Content) error {
	if !c.IsParts() {
		return nil
	}
	parts := c.Parts()
	for i := range parts {
		if err := CheckPart(&parts[i]); err != nil {
			return jsoncodec.Wrap("content["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

// CheckPart returns an error if the part has no type or lacks the field that its type requires. A
// model would reject every request that contains such a part.
func CheckPart(p *abi.Part) error {
	var missing bool
	switch p.Type {
	case "":
		return errors.New("a content part needs a type")
	case abi.PartImage:
		missing = p.ImageURL == nil
	case abi.PartAudio:
		missing = p.InputAudio == nil
	case abi.PartFile:
		missing = p.File == nil
	}
	if missing {
		return errors.New("a content part of type " + p.Type + " needs the field " + p.Type)
	}
	return nil
}

// CheckChunk returns an error if the chunk's kind is unknown, or if the field that the kind
// requires is missing or out of range.
func CheckChunk(c *abi.Chunk) error {
	switch c.Kind {
	case abi.ChunkText, abi.ChunkReasoning, abi.ChunkToolResult:
		return nil
	case abi.ChunkToolCall:
		if c.Index < 0 || c.Index > 1023 {
			return errors.New("a tool_call chunk's index is " + strconv.Itoa(c.Index) + "; want 0 to 1023")
		}
		return nil
	case abi.ChunkPart:
		if c.Part == nil {
			return errors.New("a part chunk needs a part")
		}
		return CheckPart(c.Part)
	default:
		return errors.New("unknown kind of chunk " + strconv.Quote(c.Kind) +
			"; want text, reasoning, tool_call, tool_result or part")
	}
}

// CheckListPatch returns an error if the patch does not fit a list whose length is total, or if it
// inserts an invalid message.
func CheckListPatch(p *abi.ListPatch, total int) error {
	if p.Whole {
		return checkMessages(p.Replace)
	}
	end := 0
	for i, s := range p.Splice {
		if s.At < end || s.Remove < 0 || s.At > total || s.Remove > total-s.At {
			return spliceError(i, s, total, end)
		}
		end = s.At + s.Remove
		if err := checkMessages(s.Insert); err != nil {
			return jsoncodec.Wrap("splice "+strconv.Itoa(i), err)
		}
	}
	return nil
}

// spliceError returns the error for splice i, which does not fit a list whose length is total.
// Earlier splices cover the messages before index end.
func spliceError(i int, s abi.Splice, total, end int) error {
	n := strconv.Itoa
	return errors.New("splice " + n(i) + " (at " + n(s.At) + ", remove " + n(s.Remove) + ") does not fit: the list has " +
		n(total) + " messages, and splices must ascend without overlap from " + n(end) + " on")
}

func checkMessages(messages []abi.Message) error {
	for i := range messages {
		if err := CheckMessage(&messages[i]); err != nil {
			return jsoncodec.Wrap("message "+strconv.Itoa(i), err)
		}
	}
	return nil
}

// maxToolName is the maximum length of a tool name that all supported model APIs accept.
const maxToolName = 64

// CheckTool returns an error unless all supported model APIs accept the tool's name, and its
// parameters are a JSON object, null or empty.
func CheckTool(t *abi.Tool) error {
	if t.Name == "" || len(t.Name) > maxToolName || strings.ContainsFunc(t.Name, notInToolName) {
		return errors.New("invalid tool name " + strconv.Quote(jsoncodec.Cut(t.Name, 80)) + ": want 1 to " +
			strconv.Itoa(maxToolName) + " letters (a-z, A-Z), digits, _ and -")
	}
	return CheckParameters(t)
}

// CheckParameters returns an error unless the tool's parameters are a JSON object, null or empty.
// It does not check the name, because a gateway's client may use names that other model APIs
// reject.
func CheckParameters(t *abi.Tool) error {
	if len(t.Parameters) > 0 && t.Parameters[0] != '{' && string(t.Parameters) != "null" {
		return errors.New("tool " + strconv.Quote(t.Name) + ": parameters must be a JSON Schema object")
	}
	return nil
}

func notInToolName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
}
