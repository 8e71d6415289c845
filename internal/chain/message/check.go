package message

import (
	"bytes"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// checkCalls refuses a message that would keep the host busy for long.
func checkCalls(m *abi.Message) error {
	if len(m.ToolCalls) > MaxCalls {
		return fmt.Errorf("a message with %d tool calls; at most %d are allowed", len(m.ToolCalls), MaxCalls)
	}
	return nil
}

// maxCalls is how many calls of tools a message of a module may make; chunks
// cannot say more either.
const MaxCalls = 1024

// checkResult refuses a tool result that cannot be recorded.
func CheckResult(res *abi.Result) error {
	if res == nil {
		return nil
	}
	if len(res.Extra) > 0 && res.Extra[0] != '{' && string(res.Extra) != "null" {
		return fmt.Errorf("result: extra must be an object")
	}
	if err := res.Content.Check(); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// saysNothing reports whether a message is one that a module left out.
func isEmpty(m *abi.Message) bool {
	return m.Role == "" && m.Content.IsNull() && m.ReasoningContent == "" && len(m.ToolCalls) == 0 && len(m.Unknown) == 0
}

// checkResponse refuses a response that is not an assistant's message, and
// gives it the id and origin of the host.
func CheckResponse(res *abi.Response, entry string, inner *abi.Response) error {
	if res == nil {
		return nil
	}
	if isEmpty(&res.Message) {
		return fmt.Errorf("response: it has no message; an answer that is to be empty has one with the role assistant")
	}
	if res.Message.Role == "" {
		res.Message.Role = abi.RoleAssistant
	}
	if err := res.Message.Check(); err != nil {
		return fmt.Errorf("response: %w", err)
	}
	if err := checkCalls(&res.Message); err != nil {
		return err
	}
	if len(res.FinishReason) > abi.MaxName {
		return fmt.Errorf("response: a finish_reason of %d bytes; at most %d are allowed", len(res.FinishReason), abi.MaxName)
	}
	if u := res.Usage; u != nil && (u.PromptTokens < 0 || u.CompletionTokens < 0 || u.TotalTokens < 0) {
		return fmt.Errorf("response: usage is negative")
	}
	if res.Message.Role != abi.RoleAssistant {
		return fmt.Errorf("response: want an assistant's message, got a %s's", res.Message.Role)
	}
	res.Message.ID, res.Message.Origin = "", abi.OriginModule+entry
	if inner != nil {
		res.Message.ID = inner.Message.ID
		if Same(&res.Message, &inner.Message) {
			res.Message.Origin = inner.Message.Origin
		}
		if res.Usage == nil {
			res.Usage = inner.Usage
		}
	}
	return nil
}

// sameMessage compares messages without what is the host's.
func Same(a, b *abi.Message) bool {
	x, y := *a, *b
	x.ID, x.Origin, y.ID, y.Origin = "", "", "", ""
	return SameJSON(&x, &y)
}

// sameJSON compares two values as they are written.
func SameJSON(a, b any) bool {
	x, errX := abijson.Marshal(a)
	y, errY := abijson.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
