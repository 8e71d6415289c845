package abi

import (
	"errors"
	"strings"

	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// Content is the content of a message or of a tool result: null, a string, or parts. The
// zero value is null.
type Content struct {
	// Package abijson relies on the order of the fields.
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

// Text returns content that is a string.
func Text(s string) Content { return Content{text: s, kind: contentText} }

// Parts returns content that consists of parts.
func Parts(parts ...Part) Content { return Content{parts: parts, kind: contentParts} }

// IsNull reports whether the content is null. An empty string is not null.
func (c Content) IsNull() bool { return c.kind == contentNull }

// IsParts reports whether the content consists of parts.
func (c Content) IsParts() bool { return c.kind == contentParts }

// Parts returns the parts of the content. A string counts as one text part; null has no parts.
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

// String returns the string, or the concatenated Text fields of the parts. It returns "" for null.
func (c Content) String() string {
	if c.kind != contentParts {
		return c.text
	}
	return c.joined()
}

// joined returns the concatenated Text fields of the parts. It is a separate method so that the
// compiler inlines String.
func (c Content) joined() string {
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
		return jsoncodec.AppendText(nil, c.text), nil
	case contentParts:
		return jsoncodec.AppendValue(nil, append([]Part{}, c.parts...))
	default:
		return []byte("null"), nil
	}
}

// UnmarshalJSON reads null, a string or an array of parts.
func (c *Content) UnmarshalJSON(b []byte) error {
	*c = Content{}
	switch {
	case len(b) > 0 && b[0] == '"':
		c.kind = contentText
		return unmarshal(b, &c.text)
	case len(b) > 0 && b[0] == '[':
		c.kind = contentParts
		return unmarshal(b, &c.parts)
	case string(b) == "null":
		return nil
	default:
		return errors.New("content must be a string, null or an array of parts")
	}
}

// The part types that the host interprets. Parts of other types pass through unchanged.
const (
	PartText  = "text"
	PartImage = "image_url"
	PartAudio = "input_audio"
	PartFile  = "file"
)

// A Part is one part of the content in the format of the OpenAI chat API.
type Part struct {
	Type       string `json:"type"`
	Text       string `json:"text,omitempty"`
	ImageURL   JSON   `json:"image_url,omitempty"`   // {"url", "detail"}
	InputAudio JSON   `json:"input_audio,omitempty"` // {"data", "format"}
	File       JSON   `json:"file,omitempty"`        // {"file_id"} or {"filename", "file_data"}

	// Unknown holds the fields that this version does not define, unchanged.
	Unknown Fields `json:"-"`
}

// MarshalJSON writes the known fields, then the unknown ones.
func (p Part) MarshalJSON() ([]byte, error) {
	type known Part
	if p.Type != PartText || p.Text != "" {
		return object(known(p), p.Unknown)
	}
	return object(struct { // a text part always has the field text
		known
		Text string `json:"text"`
	}{known: known(p)}, p.Unknown)
}

// UnmarshalJSON reads the known fields and stores the others in Unknown.
func (p *Part) UnmarshalJSON(b []byte) error {
	type known Part
	*p = Part{}
	return unmarshalObject(b, (*known)(p), &p.Unknown)
}
