// Package message implements immutable lists of messages, which share their parts and their JSON,
// and edits them for middlewares.
//
// A [List] is a run's state or the request of one model call. Each edited copy has its own
// revision. [Revisions] tell a module from which index a list has changed. The package guarantees
// that the IDs and origins of messages are set by the host.
package message

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// checkCalls returns an error if a message has more than MaxCalls tool calls.
func checkCalls(m *abi.Message) error {
	if len(m.ToolCalls) > MaxCalls {
		return fmt.Errorf("a message with %d tool calls; at most %d are allowed", len(m.ToolCalls), MaxCalls)
	}
	return nil
}

// MaxAllCalls is the maximum number of tool calls that one answer may add to a list, and of tool
// calls in all of the caller's messages. The host adds a result of up to a few KB for each call
// that has none.
const MaxAllCalls = 10_000

// CountCalls returns the number of tool calls in messages.
func CountCalls(messages []abi.Message) (n int) {
	for i := range messages {
		n += len(messages[i].ToolCalls)
	}
	return n
}

// CheckJSON returns an error if a message contains raw JSON that is invalid, for example in Extra.
// Only Go code of this process can make such a message, since the messages of modules are decoded
// from JSON.
func CheckJSON(m *abi.Message) error {
	if len(m.Extra) == 0 && len(m.Unknown) == 0 && !m.Content.IsParts() &&
		!slices.ContainsFunc(m.ToolCalls, func(c abi.ToolCall) bool { return len(c.Unknown) > 0 }) {
		return nil
	}
	_, err := abijson.Marshal(m)
	return err
}

// MaxCalls is the maximum number of tool calls in a message of a middleware. A stream of chunks has
// the same limit.
const MaxCalls = 1024

// CheckResult returns an error if a tool result has invalid content or an invalid Extra. It removes
// the labels of res. A nil res is valid.
func CheckResult(res *abi.Result) error {
	if res == nil {
		return nil
	}
	if len(res.Extra) > 0 && res.Extra[0] != '{' && string(res.Extra) != "null" {
		return fmt.Errorf("result: extra must be an object")
	}
	if err := contract.CheckContent(&res.Content); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	res.Labels = nil // the host sets them
	if len(res.Extra) == 0 && !res.Content.IsParts() {
		return nil
	}
	if _, err := abijson.Marshal(res); err != nil { // only Go code of this process can make such a result
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// isEmpty reports whether m has no role, content, reasoning, tool calls or unknown fields. An answer of a
// middleware that sets no message has such a one.
func isEmpty(m *abi.Message) bool {
	return m.Role == "" && m.Content.IsNull() && m.ReasoningContent == "" && len(m.ToolCalls) == 0 && len(m.Unknown) == 0
}

// CheckResponse validates the response that an entry returned. It returns an error if the message is missing, invalid
// or not an assistant's, if it has too many tool calls, if the finish reason is too long, or if the usage is
// negative. A nil response is valid. CheckResponse sets an empty role to assistant, sets the message's ID and origin,
// and removes its labels. inner is the response that the middleware saw, or nil. res gets the ID of inner and, if it
// has none, the usage of inner. Its origin is that of inner if both messages are the same, and otherwise the entry.
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
	if err := contract.CheckMessage(&res.Message); err != nil {
		return fmt.Errorf("response: %w", err)
	}
	if err := CheckJSON(&res.Message); err != nil {
		return fmt.Errorf("response: %w", err)
	}
	if err := checkCalls(&res.Message); err != nil {
		return err
	}
	if len(res.FinishReason) > contract.MaxName {
		return fmt.Errorf("response: a finish_reason of %d bytes; at most %d are allowed",
			len(res.FinishReason), contract.MaxName)
	}
	if u := res.Usage; u != nil && (u.PromptTokens < 0 || u.CompletionTokens < 0 || u.TotalTokens < 0) {
		return fmt.Errorf("response: usage is negative")
	}
	if res.Message.Role != abi.RoleAssistant {
		return fmt.Errorf("response: want an assistant's message, got a %s's", res.Message.Role)
	}
	res.Message = Unlabelled(res.Message)
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

// Same reports whether two messages are equal. It ignores their IDs, origins and labels, which the
// host sets.
func Same(a, b *abi.Message) bool {
	x, y := Unlabelled(*a), Unlabelled(*b)
	x.ID, x.Origin, y.ID, y.Origin = "", "", "", ""
	return SameJSON(&x, &y)
}

// SameJSON reports whether two values have the same JSON.
func SameJSON(a, b any) bool {
	x, errX := abijson.Marshal(a)
	y, errY := abijson.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
