package chat

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// readContent reads the content of a message.
func readContent(v rawjson.Value, to *abi.Content, budget *int) error {
	switch {
	case v.IsNull():
		return nil
	case v.IsString():
		*to = abi.Text(v.String())
		return nil
	case !v.IsArray():
		return errors.New("content must be a string, null or an array of parts")
	}
	list := v.Elements()
	if err := spend(budget, len(list)); err != nil {
		return err
	}
	parts := make([]abi.Part, len(list))
	for i, v := range list {
		if err := readPart(v, &parts[i]); err != nil {
			return fmt.Errorf("content[%d]: %w", i, err)
		}
	}
	*to = abi.Parts(parts...)
	return nil
}

func readPart(v rawjson.Value, p *abi.Part) (err error) {
	if !v.IsObject() {
		return errors.New("a part must be an object")
	}
	for _, m := range v.Members() {
		switch m.Name {
		case "type":
			err = readText(m.Name, m.Value, &p.Type)
		case "text":
			err = readText(m.Name, m.Value, &p.Text)
		case "image_url":
			p.ImageURL = abi.JSON(m.Value.Text)
		case "input_audio":
			p.InputAudio = abi.JSON(m.Value.Text)
		case "file":
			p.File = abi.JSON(m.Value.Text)
		default:
			err = readUnknown(m.Name, m.Value, &p.Unknown)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// editContent returns the text of a message's content, whose value is v, after modules changed it
// from old to next. It returns nil if they are equal.
func editContent(v rawjson.Value, old, next abi.Content) ([]byte, error) {
	if reflect.DeepEqual(old, next) {
		return nil, nil
	}
	if err := keepsOpaque(old.Parts(), next.Parts()); err != nil {
		return nil, err
	}
	switch {
	case next.IsNull() && old.IsNull():
		return nil, nil
	case next.IsNull():
		return []byte("null"), nil
	case !next.IsParts():
		if !old.IsParts() && !old.IsNull() && old.String() == next.String() {
			return nil, nil
		}
		return rawjson.Quote(next.String()), nil
	case !old.IsParts():
		return rewriteParts(nil, nil, next.Parts())
	case wire.SameTypes(old.Parts(), next.Parts()):
		return editParts(v, old.Parts(), next.Parts())
	}
	return rewriteParts(v.Elements(), old.Parts(), next.Parts())
}

// keepsOpaque returns an error unless next has the opaque parts of old, unchanged and in their order.
func keepsOpaque(old, next []abi.Part) error {
	was, err := opaque(old)
	if err != nil {
		return err
	}
	is, err := opaque(next)
	if err != nil {
		return err
	}
	if !slices.Equal(was, is) {
		return moduleError("a module changed, moved, added or removed a part of a type that belongs to the upstream")
	}
	return nil
}

// opaque returns the encodings of the opaque parts.
func opaque(parts []abi.Part) ([]string, error) {
	var out []string
	for i := range parts {
		if !wire.Opaque(&parts[i]) {
			continue
		}
		b, err := encodePart(&parts[i])
		if err != nil {
			return nil, err
		}
		out = append(out, string(b))
	}
	return out, nil
}

func encodePart(p *abi.Part) ([]byte, error) {
	b, err := abijson.Marshal(*p)
	if err != nil {
		return nil, moduleError("a part of a message cannot be encoded: %v", err)
	}
	return b, nil
}

// editParts returns the text of a content whose parts changed from old to next, and have the same
// types, or nil if they are equal. v is the content before.
func editParts(v rawjson.Value, old, next []abi.Part) ([]byte, error) {
	e := rawjson.Edits{Doc: v.Text}
	for i, element := range v.Elements() {
		change := changes(partFields(&old[i]), partFields(&next[i]))
		if len(change) > 0 {
			e.Replace(relative(element, v), setMembers(element, change))
		}
	}
	if !e.Changed() {
		return nil, nil
	}
	return e.Apply(), nil
}

// partFields returns the fields of a part as they are encoded, without its type.
func partFields(p *abi.Part) abi.Fields {
	out := slices.Clone(p.Unknown)
	if p.Type == abi.PartText || p.Text != "" {
		out = append(out, field("text", rawjson.Quote(p.Text)))
	}
	for _, f := range []abi.Field{
		field("image_url", p.ImageURL), field("input_audio", p.InputAudio), field("file", p.File),
	} {
		if len(f.Value) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// changes returns the members of an object that change from old to next. A nil value removes one.
func changes(old, next abi.Fields) map[string][]byte {
	was := make(map[string]string, len(old))
	for _, f := range old {
		was[f.Name] = string(f.Value)
	}
	out := map[string][]byte{}
	for _, f := range next {
		if text, ok := was[f.Name]; !ok || text != string(f.Value) {
			out[f.Name] = f.Value
		}
		delete(was, f.Name)
	}
	for name := range was {
		out[name] = nil
	}
	return out
}

// rewriteParts writes parts as a new array. Parts that are equal to an old one keep its bytes.
func rewriteParts(elements []rawjson.Value, old, next []abi.Part) ([]byte, error) {
	texts := map[string][][]byte{} // the old parts as received, by their encoding
	for i := range old {
		b, err := encodePart(&old[i])
		if err != nil {
			return nil, err
		}
		texts[string(b)] = append(texts[string(b)], elements[i].Text)
	}
	list := make([][]byte, len(next))
	for i := range next {
		b, err := encodePart(&next[i])
		if err != nil {
			return nil, err
		}
		if kept := texts[string(b)]; len(kept) > 0 {
			list[i], texts[string(b)] = kept[0], kept[1:]
			continue
		}
		list[i] = b
	}
	return rawjson.Array(list), nil
}
