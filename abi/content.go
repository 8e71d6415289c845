package abi

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
)

// Content is the content of a message or of a tool result: null, a string, or parts. The
// zero value is null.
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

// Text returns content that is a string.
func Text(s string) Content { return Content{text: s, kind: contentText} }

// Parts returns content that consists of parts.
func Parts(parts ...Part) Content { return Content{parts: parts, kind: contentParts} }

// IsNull reports whether there is no content.
func (c Content) IsNull() bool { return c.kind == contentNull }

// IsParts reports whether the content consists of parts.
func (c Content) IsParts() bool { return c.kind == contentParts }

// Parts returns the parts of the content. A string counts as one text part.
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

// String returns the text of the content: the string, or the concatenated text parts.
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
func (c Content) MarshalJSON() ([]byte, error) { return marshal(&c) }

// UnmarshalJSON reads null, a string or an array of parts.
func (c *Content) UnmarshalJSON(b []byte) error { return unmarshal(b, c) }

func (c *Content) writeValue(w *writer) {
	switch c.kind {
	case contentText:
		w.text(c.text)
	case contentParts:
		w.b = append(w.b, '[')
		for i := range c.parts {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			c.parts[i].writeValue(w)
		}
		w.b = append(w.b, ']')
	default:
		w.null()
	}
}

func (c *Content) fill(t *trusted) {
	switch t.space() {
	case '"':
		c.text, c.kind = t.text(), contentText
	case '[':
		c.kind = contentParts
		fillSlice(t, &c.parts, func(t *trusted, p *Part) { p.fill(t) })
	default:
		if !t.null() {
			t.fail()
		}
	}
}

func (Content) shape(first byte) reflect.Type {
	if first == '[' {
		return reflect.TypeFor[[]Part]()
	}
	return nil
}

// The part types that the host knows. Other types pass through unchanged.
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

	// Unknown holds the fields that this version does not know, unchanged.
	Unknown Fields `json:"-"`
}

// Check returns an error if the part is invalid: a model would reject every request that
// contains it.
func (p *Part) Check() error {
	var missing bool
	switch p.Type {
	case "":
		return errors.New("a content part needs a type")
	case PartImage:
		missing = p.ImageURL == nil
	case PartAudio:
		missing = p.InputAudio == nil
	case PartFile:
		missing = p.File == nil
	}
	if missing {
		return errors.New("a content part of type " + p.Type + " needs the field " + p.Type)
	}
	return nil
}

// Check returns an error if one of the parts is invalid.
func (c *Content) Check() error {
	for i := range c.parts {
		if err := c.parts[i].Check(); err != nil {
			return Wrap("content["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

// MarshalJSON writes the known fields, then the unknown ones.
func (p Part) MarshalJSON() ([]byte, error) { return marshal(&p) }

// UnmarshalJSON reads the known fields and stores the others in Unknown.
func (p *Part) UnmarshalJSON(b []byte) error {
	*p = Part{}
	return unmarshal(b, p)
}

func (p *Part) writeValue(w *writer) {
	w.b = append(w.b, '{')
	p.writeFields(w)
	if p.Type == PartText && p.Text == "" {
		w.key(`"text":`)
		w.text("")
	}
	w.fields(p.Unknown)
	w.b = append(w.b, '}')
}

func (p *Part) keep(name string, raw []byte) { p.Unknown = p.Unknown.with(name, raw) }

func (Part) open() {}
