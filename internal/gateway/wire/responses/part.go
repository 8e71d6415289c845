package responses

import (
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// readContent returns the content of a message or the output of a tool. where names it in errors.
func (in *reader) readContent(v rawjson.Value, where string) (abi.Content, error) {
	switch {
	case v.IsNull():
		return abi.Content{}, nil
	case v.IsString():
		return abi.Text(v.String()), nil
	case !v.IsArray():
		return abi.Content{}, invalid(where, "%s must be a string or an array", where)
	}
	elements := v.Elements()
	if in.count += len(elements); in.count > maxItems {
		return abi.Content{}, invalid("input", "input has more than %d parts", maxItems)
	}
	parts := make([]abi.Part, len(elements))
	for i, e := range elements {
		var err error
		if parts[i], err = readPart(e, where+"["+strconv.Itoa(i)+"]"); err != nil {
			return abi.Content{}, err
		}
	}
	return abi.Parts(parts...), nil
}

// readPart returns a part of a content.
func readPart(v rawjson.Value, where string) (abi.Part, error) {
	if !v.IsObject() {
		return abi.Part{}, invalid(where, "%s must be an object", where)
	}
	f := members(v)
	if err := f.checkInput(where); err != nil {
		return abi.Part{}, err
	}
	if name := textField(f["type"].String()); name != "" {
		if !f[name].IsString() {
			return abi.Part{}, invalid(where, "%s.%s must be a string", where, name)
		}
		return abi.Part{Type: abi.PartText, Text: f[name].String()}, nil
	}
	switch f["type"].String() {
	case "input_image":
		if f["image_url"].IsString() {
			return abi.Part{Type: abi.PartImage, ImageURL: imageURL(f)}, nil
		}
	case "input_file":
		return abi.Part{Type: abi.PartFile, File: fileOf(v)}, nil
	}
	return readOpaque(v, where)
}

// textField returns the name of the field that has the text of a part, or "" if the part has no text that
// modules may change.
func textField(typ string) string {
	switch typ {
	case "input_text", "output_text", "text":
		return "text"
	case "refusal":
		return "refusal"
	}
	return ""
}

// readOpaque returns an object as a part with its fields.
func readOpaque(v rawjson.Value, where string) (abi.Part, error) {
	var p abi.Part
	if err := p.UnmarshalJSON(v.Text); err != nil {
		return p, invalid(where, "%s: %v", where, err)
	}
	if p.Type == "" {
		return p, invalid(where, "%s has no type", where)
	}
	return p, nil
}

func imageURL(f object) []byte {
	fields := []field{{"url", f["image_url"].Text}}
	if detail := f["detail"]; detail.IsString() {
		fields = append(fields, field{"detail", detail.Text})
	}
	return newObject(fields...)
}

// fileOf returns the fields of an input_file part that say which file it is.
func fileOf(v rawjson.Value) []byte {
	var fields []field
	for _, m := range v.Members() {
		if m.Name != "type" && m.Name != "prompt_cache_breakpoint" {
			fields = append(fields, field{m.Name, m.Value.Text})
		}
	}
	return newObject(fields...)
}

// sameContent reports whether a module returned a content as it was. A string equals a single part of text.
func sameContent(a, b abi.Content) bool {
	p, q := a.Parts(), b.Parts()
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if !wire.SamePart(&p[i], &q[i]) {
			return false
		}
	}
	return true
}

// newPart returns a new part. textType is the type of a text in its place.
func newPart(p *abi.Part, textType string) ([]byte, error) {
	if p.Type != abi.PartText && textType == "output_text" {
		return nil, broken("a message of the assistant can only have text, and not a new part of type %.40q", p.Type)
	}
	var fields []field
	switch p.Type {
	case abi.PartText:
		fields = []field{str("type", textType), str("text", p.Text)}
	case abi.PartImage:
		v, err := rawjson.Parse(p.ImageURL)
		if err != nil || !v.Get("url").IsString() {
			return nil, broken("an image has no URL")
		}
		fields = []field{str("type", "input_image"), {"image_url", v.Get("url").Text}}
		if detail := v.Get("detail"); detail.IsString() {
			fields = append(fields, field{"detail", detail.Text})
		}
	case abi.PartFile:
		v, err := rawjson.Parse(p.File)
		if err != nil || !v.IsObject() || v.Get("type").Exists() {
			return nil, broken("a file is not an object with file_id or file_data")
		}
		fields = []field{str("type", "input_file")}
		for _, m := range v.Members() {
			fields = append(fields, field{m.Name, m.Value.Text})
		}
	case abi.PartAudio:
		if _, err := rawjson.Parse(p.InputAudio); err != nil {
			return nil, broken("audio has no data")
		}
		fields = []field{str("type", "input_audio"), {"input_audio", p.InputAudio}}
	default:
		return nil, broken("a part of type %.40q cannot be in a new message", p.Type)
	}
	text, err := withUnknown(newObject(fields...), p.Unknown)
	if err != nil {
		return nil, err
	}
	return text, nil
}

// withUnknown adds the fields that a module set beyond those of the ABI, such as a cache breakpoint.
func withUnknown(text []byte, unknown abi.Fields) ([]byte, error) {
	if len(unknown) == 0 {
		return text, nil
	}
	change := map[string][]byte{}
	for _, f := range unknown {
		if v, err := rawjson.Parse(f.Value); err == nil && f.Name != "type" {
			change[f.Name] = v.Text
			continue
		}
		return nil, broken("the field %.40q of a part is not valid", f.Name)
	}
	return edit(text, change), nil
}

func opaqueError(typ string) *wire.Error {
	return broken("a module changed, moved or removed an item or a part of type %.40q; such parts must be "+
		"returned unchanged and in their place, or removed together with their message", typ)
}

// changedPart returns the text of a part whose ABI form was changed from was to now.
func changedPart(text []byte, was, now *abi.Part, textType string) ([]byte, error) {
	if was.Type != abi.PartText || now.Type != abi.PartText {
		return newPart(now, textType)
	}
	return withUnknown(edit(text, changedText(parsed(text), now.Text)), now.Unknown)
}

// changedText returns the changes of a part of text with other text. Log probabilities repeat the text.
func changedText(part rawjson.Value, text string) map[string][]byte {
	change := map[string][]byte{textField(part.Get("type").String()): rawjson.Quote(text)}
	if part.Get("logprobs").IsArray() {
		change["logprobs"] = []byte("[]")
	}
	return change
}
