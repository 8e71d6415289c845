package responses

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// changedContent returns the text of a content whose ABI form changed from was to now. v is the
// content before. Parts that are equal keep their text.
func changedContent(v rawjson.Value, was, now abi.Content, textType string) ([]byte, error) {
	old, next := was.Parts(), now.Parts()
	if v.IsString() && len(next) == 1 && next[0].Type == abi.PartText && len(next[0].Unknown) == 0 {
		return rawjson.Quote(next[0].Text), nil
	}
	if err := sameOpaque(old, next); err != nil {
		return nil, err
	}
	elements := v.Elements()
	if v.IsString() || len(elements) != len(old) {
		return newContent(now, textType)
	}
	if wire.SameTypes(old, next) {
		edits := rawjson.Edits{Doc: v.Text}
		for i, x := range parsed(v.Text).Elements() {
			if wire.SamePart(&old[i], &next[i]) {
				continue
			}
			text, err := changedPart(elements[i].Text, &old[i], &next[i], textType)
			if err != nil {
				return nil, err
			}
			edits.Replace(x, text)
		}
		return edits.Apply(), nil
	}
	return rebuilt(elements, old, next, textType)
}

// rebuilt returns a content with other parts than before. A part that is equal to one before keeps its text.
func rebuilt(elements []rawjson.Value, old, next []abi.Part, textType string) ([]byte, error) {
	known := map[string][][]byte{}
	for i := range old {
		known[partKey(&old[i])] = append(known[partKey(&old[i])], elements[i].Text)
	}
	list := make([][]byte, len(next))
	for i := range next {
		key := partKey(&next[i])
		if texts := known[key]; len(texts) > 0 {
			list[i], known[key] = texts[0], texts[1:]
			continue
		}
		var err error
		if list[i], err = newPart(&next[i], textType); err != nil {
			return nil, err
		}
	}
	return rawjson.Array(list), nil
}

// partKey returns a text that is the same for equal parts only.
func partKey(p *abi.Part) string {
	if p.Type == abi.PartText && len(p.Unknown) == 0 {
		return "t" + p.Text
	}
	text, err := p.MarshalJSON()
	if err != nil {
		return p.Type
	}
	return "p" + string(rawjson.Canonical(text))
}

// sameOpaque returns an error unless next has the opaque parts of old in their order.
func sameOpaque(old, next []abi.Part) error {
	var kept []*abi.Part
	for i := range next {
		if wire.Opaque(&next[i]) {
			kept = append(kept, &next[i])
		}
	}
	for i := range old {
		if !wire.Opaque(&old[i]) {
			continue
		}
		if len(kept) == 0 || !wire.SamePart(&old[i], kept[0]) {
			return opaqueError(old[i].Type)
		}
		kept = kept[1:]
	}
	if len(kept) > 0 {
		return opaqueError(kept[0].Type)
	}
	return nil
}

// textType returns the type of text in a message of a role.
func textType(role string) string {
	if role == abi.RoleAssistant {
		return "output_text"
	}
	return "input_text"
}

// newContent returns the text of a content that modules wrote.
func newContent(c abi.Content, textType string) ([]byte, error) {
	if !c.IsParts() {
		return rawjson.Quote(c.String()), nil
	}
	parts := c.Parts()
	list := make([][]byte, len(parts))
	for i := range parts {
		var err error
		if list[i], err = newPart(&parts[i], textType); err != nil {
			return nil, err
		}
	}
	return rawjson.Array(list), nil
}
