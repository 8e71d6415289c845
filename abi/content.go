package abi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Content is what a message or a tool result says: null, a string, or parts.
// The zero value is null.
type Content struct {
	text  string
	parts []Part
	kind  contentKind
}

type contentKind uint8

const (
	contentNull contentKind = iota
	contentText
	contentParts
)

// Text is content of one string.
func Text(s string) Content { return Content{text: s, kind: contentText} }

// Parts is content of several parts.
func Parts(parts ...Part) Content { return Content{parts: parts, kind: contentParts} }

// IsNull reports whether there is no content.
func (c Content) IsNull() bool { return c.kind == contentNull }

// IsParts reports whether the content consists of parts.
func (c Content) IsParts() bool { return c.kind == contentParts }

// Parts returns the parts of the content; a string is one text part.
func (c Content) Parts() []Part {
	switch c.kind {
	case contentText:
		return []Part{{Type: PartText, Text: c.text}}
	case contentParts:
		return c.parts
	default:
		return nil
	}
}

// String returns the text of the content: the string, or all text parts
// put together.
func (c Content) String() string {
	if c.kind != contentParts {
		return c.text
	}
	var b strings.Builder
	for _, p := range c.parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// MarshalJSON writes null, a string or an array of parts.
func (c Content) MarshalJSON() ([]byte, error) {
	switch c.kind {
	case contentText:
		return Marshal(c.text)
	case contentParts:
		if c.parts == nil {
			return []byte("[]"), nil
		}
		return Marshal(c.parts)
	default:
		return []byte("null"), nil
	}
}

// UnmarshalJSON reads null, a string or an array of parts.
func (c *Content) UnmarshalJSON(b []byte) error {
	*c = Content{}
	switch b[0] {
	case 'n':
		return nil
	case '"':
		c.kind = contentText
		return json.Unmarshal(b, &c.text)
	case '[':
		c.kind = contentParts
		return json.Unmarshal(b, &c.parts)
	default:
		return fmt.Errorf("content must be a string, null or an array of parts")
	}
}

func (Content) shape(first byte) reflect.Type {
	if first == '[' {
		return reflect.TypeFor[[]Part]()
	}
	return nil
}

// The types of parts that the host knows; others pass through.
const (
	PartText  = "text"
	PartImage = "image_url"
	PartAudio = "input_audio"
	PartFile  = "file"
)

// A Part is one piece of content in the form of the OpenAI chat API.
type Part struct {
	Type       string          `json:"type"`
	Text       string          `json:"text,omitempty"`
	ImageURL   json.RawMessage `json:"image_url,omitempty"`   // {"url", "detail"}
	InputAudio json.RawMessage `json:"input_audio,omitempty"` // {"data", "format"}
	File       json.RawMessage `json:"file,omitempty"`        // {"file_id"} or {"filename", "file_data"}

	// Unknown holds the fields that this version does not know, as they came.
	Unknown Fields `json:"-"`
}

// MarshalJSON writes the known fields, then the unknown ones.
func (p Part) MarshalJSON() ([]byte, error) {
	type plain Part
	b, err := Marshal(plain(p))
	if err != nil {
		return nil, err
	}
	if p.Type == PartText && p.Text == "" {
		b = appendField(b, "text", []byte(`""`))
	}
	return p.Unknown.appendTo(b), nil
}

// UnmarshalJSON reads the known fields and keeps the others.
func (p *Part) UnmarshalJSON(b []byte) error {
	type plain Part
	*p = Part{}
	if err := json.Unmarshal(b, (*plain)(p)); err != nil {
		return err
	}
	var err error
	p.Unknown, err = unknownFields(b, reflect.TypeFor[Part]())
	return err
}

func (Part) open() {}
