// Package clone copies and compares the types of package abi, so that a hook can change the values
// that it receives in place. It imports no package that makes modules large.
package clone

import (
	"bytes"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// Message returns a copy of m that [CopyMessage] made, so that changes in place do not affect the
// message in the input.
func Message(m *abi.Message) (out abi.Message) {
	CopyMessage(&out, m)
	return out
}

// CopyMessage copies m, including its slices, to out. The raw JSON in parts, tool calls and unknown
// fields remains shared. Most messages have only strings, for which CopyMessage is a plain
// assignment.
func CopyMessage(out, m *abi.Message) {
	*out = *m
	if m.ToolCalls != nil {
		out.ToolCalls = slices.Clone(m.ToolCalls)
	}
	if m.Extra != nil {
		out.Extra = slices.Clone(m.Extra)
	}
	if m.Unknown != nil {
		out.Unknown = slices.Clone(m.Unknown)
	}
	if m.Labels != nil {
		out.Labels, out.PartLabels = slices.Clone(m.Labels), slices.Clone(m.PartLabels)
	}
	if m.Content.IsParts() {
		out.Content = cloneContent(m.Content)
	}
}

// Messages returns a copy of a list. [CopyMessage] copies its messages.
func Messages(list []abi.Message) []abi.Message {
	out := make([]abi.Message, len(list))
	for i := range list {
		CopyMessage(&out[i], &list[i])
	}
	return out
}

func cloneContent(c abi.Content) abi.Content {
	if !c.IsParts() {
		return c
	}
	return abi.Parts(slices.Clone(c.Parts())...)
}

// Response returns a copy of a response, which may be nil. The message in it is a copy that
// [CopyMessage] made.
func Response(r *abi.Response) *abi.Response {
	if r == nil {
		return nil
	}
	out := *r
	out.Message = Message(&r.Message)
	if r.Usage != nil {
		usage := *r.Usage
		out.Usage = &usage
	}
	return &out
}

// Result returns a copy of a result as [CopyResult] does, or nil if the result is nil.
func Result(r *abi.Result) *abi.Result {
	if r == nil {
		return nil
	}
	out := CopyResult(r)
	return &out
}

// CopyResult returns a copy of r, which must not be nil. The raw JSON in parts remains shared.
func CopyResult(r *abi.Result) abi.Result {
	return abi.Result{Content: cloneContent(r.Content), IsError: r.IsError, Extra: slices.Clone(r.Extra),
		Labels: slices.Clone(r.Labels)}
}

// SameMessage reports whether two messages are equal. Both may be nil.
func SameMessage(a, b *abi.Message) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.Role == b.Role && a.Name == b.Name && a.ToolCallID == b.ToolCallID &&
		a.ReasoningContent == b.ReasoningContent && a.Origin == b.Origin && slices.Equal(a.Labels, b.Labels) &&
		sameContent(a.Content, b.Content) &&
		bytes.Equal(a.Extra, b.Extra) && sameFields(a.Unknown, b.Unknown) &&
		slices.EqualFunc(a.ToolCalls, b.ToolCalls, func(a, b abi.ToolCall) bool {
			return a.ID == b.ID && a.Type == b.Type && a.Function == b.Function && sameFields(a.Unknown, b.Unknown)
		})
}

func sameContent(a, b abi.Content) bool {
	if a.IsParts() != b.IsParts() || a.IsNull() != b.IsNull() {
		return false
	}
	if !a.IsParts() {
		return a.String() == b.String()
	}
	return slices.EqualFunc(a.Parts(), b.Parts(), func(a, b abi.Part) bool { return SamePart(&a, &b) })
}

// SamePart reports whether two parts are equal. Both may be nil.
func SamePart(a, b *abi.Part) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type && a.Text == b.Text && bytes.Equal(a.ImageURL, b.ImageURL) &&
		bytes.Equal(a.InputAudio, b.InputAudio) &&
		bytes.Equal(a.File, b.File) &&
		sameFields(a.Unknown, b.Unknown)
}

func sameFields(a, b abi.Fields) bool {
	return slices.EqualFunc(a, b, func(a, b abi.Field) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) })
}

// SameResponse reports whether two responses are equal. Both may be nil.
func SameResponse(a, b *abi.Response) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.FinishReason == b.FinishReason && SamePlain(a.Usage, b.Usage) && SameMessage(&a.Message, &b.Message)
}

// SameResult reports whether two results are equal. Both may be nil.
func SameResult(a, b *abi.Result) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.IsError == b.IsError && bytes.Equal(a.Extra, b.Extra) && sameContent(a.Content, b.Content)
}

// SamePlain reports whether a and b are both nil or point to values that are equal by ==.
func SamePlain[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }
