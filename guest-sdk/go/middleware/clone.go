package middleware

import (
	"reflect"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// cloneMessage copies what an author could change in place, so that what was
// shown and what is handed out stay apart.
func cloneMessage(m *abi.Message) abi.Message {
	out := *m
	out.ToolCalls = slices.Clone(m.ToolCalls)
	out.Extra = slices.Clone(m.Extra)
	out.Unknown = slices.Clone(m.Unknown)
	out.Content = cloneContent(m.Content)
	return out
}

func cloneMessages(list []abi.Message) []abi.Message {
	out := make([]abi.Message, len(list))
	for i := range list {
		out[i] = cloneMessage(&list[i])
	}
	return out
}

func cloneContent(c abi.Content) abi.Content {
	if !c.IsParts() {
		return c
	}
	return abi.Parts(slices.Clone(c.Parts())...)
}

func cloneResponse(r *abi.Response) *abi.Response {
	if r == nil {
		return nil
	}
	out := *r
	out.Message = cloneMessage(&r.Message)
	if r.Usage != nil {
		usage := *r.Usage
		out.Usage = &usage
	}
	return &out
}

func cloneResult(r *abi.Result) *abi.Result {
	if r == nil {
		return nil
	}
	out := *r
	out.Content = cloneContent(r.Content)
	out.Extra = slices.Clone(r.Extra)
	return &out
}

// same reports whether two values of one shape say the same.
func same[T any](a, b *T) bool { return a == b || reflect.DeepEqual(a, b) }
