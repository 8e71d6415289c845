package responses

import (
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// Full returns the answer with the items that modules of the gateway do not see as parts of its message.
func (a *answer) Full() *abi.Response {
	var parts []abi.Part
	for _, o := range a.read {
		parts = appendItem(parts, o)
	}
	return withParts(&a.res, parts)
}

// Full returns the answer with the items that modules of the gateway do not see as parts of its message.
func (s *stream) Full() *abi.Response {
	var parts []abi.Part
	for _, it := range s.items {
		o := &output{typ: it.typ, raw: it.raw}
		if it.call != nil {
			o.call = it.call.call
		}
		for _, part := range slices.Sorted(maps.Keys(it.parts)) {
			o.texts = append(o.texts, text{text: it.parts[part].text.String()})
		}
		parts = appendItem(parts, o)
	}
	return withParts(s.Response(), parts)
}

// appendItem appends the texts of a message, or an item that is neither a message nor a call.
func appendItem(parts []abi.Part, o *output) []abi.Part {
	switch {
	case o.call != nil:
		return parts
	case o.typ == "message":
		for _, t := range o.texts {
			parts = append(parts, abi.Part{Type: abi.PartText, Text: t.text})
		}
		return parts
	}
	v, err := rawjson.Parse(o.raw)
	if err != nil {
		return parts // the item did not end
	}
	if p, err := readOpaque(v, "an item"); err == nil && wire.Opaque(&p) {
		parts = append(parts, p)
	}
	return parts
}

// withParts returns a response whose content is parts, unless they are only its text.
func withParts(res *abi.Response, parts []abi.Part) *abi.Response {
	if !slices.ContainsFunc(parts, func(p abi.Part) bool { return wire.Opaque(&p) }) {
		return res
	}
	out := *res
	out.Message.Content = abi.Parts(parts...)
	return &out
}
