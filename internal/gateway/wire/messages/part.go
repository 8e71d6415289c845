package messages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// The types of blocks.
const (
	typeText       = "text"
	typeImage      = "image"
	typeDocument   = "document"
	typeToolUse    = "tool_use"
	typeToolResult = "tool_result"
	typeThinking   = "thinking"
	typeRedacted   = "redacted_thinking"
)

// partOf returns the part for a block that is neither a call nor a result.
func partOf(kind string, members []rawjson.Member) (abi.Part, *fieldError) {
	switch kind {
	case typeImage, typeDocument:
		if p, ok := mediaPart(kind, members); ok {
			return p, nil
		}
	case abi.PartImage, abi.PartAudio, abi.PartFile:
		return abi.Part{}, problem("type", "the Messages API has no blocks of this type")
	}
	p := abi.Part{Type: kind}
	hasText := false
	for _, m := range members {
		switch m.Name {
		case "type":
		case "text":
			if hasText = m.Value.IsString(); !hasText {
				return p, problem("text", "must be a string")
			}
			p.Text = m.Value.String()
		case "image_url":
			p.ImageURL = m.Value.Text
		case "input_audio":
			p.InputAudio = m.Value.Text
		case "file":
			p.File = m.Value.Text
		default:
			p.Unknown = append(p.Unknown, abi.Field{Name: m.Name, Value: m.Value.Text})
		}
	}
	if kind == typeText && !hasText {
		return p, problem("text", "must be a string")
	}
	return p, nil
}

// documentPart returns the text part for a document of plain text, and whether the document is one.
func documentPart(kind string, members []rawjson.Member) (abi.Part, bool) {
	p := abi.Part{Type: abi.PartText}
	found := false
	for _, m := range members {
		switch m.Name {
		case "type":
		case "source":
			data := m.Value.Get("data")
			found = data.IsString() && m.Value.Get("type").String() == typeText
			p.Text = data.String()
		case "text", "image_url", "input_audio", "file":
			return p, false
		default:
			p.Unknown = append(p.Unknown, abi.Field{Name: m.Name, Value: m.Value.Text})
		}
	}
	return p, found && kind == typeDocument
}

// mediaPart returns the part for an image or a document, and whether a part can have all fields of
// the block.
func mediaPart(kind string, members []rawjson.Member) (abi.Part, bool) {
	p := abi.Part{Type: abi.PartImage}
	var source []rawjson.Member
	for _, m := range members {
		switch m.Name {
		case "type":
		case "source":
			source = m.Value.Members()
		case "text", "image_url", "input_audio", "file":
			return p, false
		default:
			p.Unknown = append(p.Unknown, abi.Field{Name: m.Name, Value: m.Value.Text})
		}
	}
	f := make(map[string]string, len(source))
	for _, m := range source {
		if !m.Value.IsString() {
			return p, false
		}
		f[m.Name] = m.Value.String()
	}
	var url string
	switch {
	case f["type"] == "base64" && len(f) == 3 && f["data"] != "" && f["media_type"] != "" &&
		!strings.ContainsAny(f["media_type"], ";,"):
		url = "data:" + f["media_type"] + ";base64," + f["data"]
	case f["type"] == "url" && len(f) == 2 && f["url"] != "" && kind == typeImage:
		url = f["url"]
	default:
		return p, false
	}
	if kind == typeImage {
		p.ImageURL = slices.Concat([]byte(`{"url":`), rawjson.Quote(url), []byte("}"))
		return p, true
	}
	p.Type = abi.PartFile
	p.File = slices.Concat([]byte(`{"file_data":`), rawjson.Quote(url), []byte("}"))
	return p, true
}

// newBlock returns a new block for a part.
func newBlock(p *abi.Part) ([]byte, error) {
	var b []byte
	switch p.Type {
	case abi.PartText:
		b = append([]byte(`{"type":"text","text":`), rawjson.Quote(p.Text)...)
	case abi.PartImage, abi.PartFile:
		source, err := sourceOf(p)
		if err != nil {
			return nil, err
		}
		kind := typeImage
		if p.Type == abi.PartFile {
			kind = typeDocument
		}
		b = append([]byte(`{"type":"`+kind+`","source":`), source...)
	default:
		return nil, fmt.Errorf("a part of type %.64q is new; the Messages API accepts only text, images and files", p.Type)
	}
	for _, f := range p.Unknown {
		if f.Name != "source" {
			b = append(append(append(append(b, ','), rawjson.Quote(f.Name)...), ':'), f.Value...)
		}
	}
	return append(b, '}'), nil
}

// sourceOf returns the source of an image or a document.
func sourceOf(p *abi.Part) ([]byte, error) {
	raw, name := p.ImageURL, "url"
	if p.Type == abi.PartFile {
		raw, name = p.File, "file_data"
	}
	v, err := rawjson.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("a part of type %q is invalid: %w", p.Type, err)
	}
	if id := v.Get("file_id"); p.Type == abi.PartFile && id.IsString() {
		return slices.Concat([]byte(`{"type":"file","file_id":`), id.Text, []byte("}")), nil
	}
	url := v.Get(name).String()
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		if media, data, ok := strings.Cut(rest, ";base64,"); ok && media != "" {
			return slices.Concat([]byte(`{"type":"base64","media_type":`), rawjson.Quote(media),
				[]byte(`,"data":`), rawjson.Quote(data), []byte("}")), nil
		}
	}
	if p.Type == abi.PartImage && (strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://")) {
		return slices.Concat([]byte(`{"type":"url","url":`), rawjson.Quote(url), []byte("}")), nil
	}
	return nil, fmt.Errorf("a part of type %q needs a data URL in base64, or an image's URL with http or https", p.Type)
}

// isThinking reports whether blocks of a type are reasoning.
func isThinking(kind string) bool { return kind == typeThinking || kind == typeRedacted }

// moduleError returns the error of a change that cannot be sent.
func moduleError(format string, args ...any) error {
	return wire.Errorf(wire.CodeModule, "a module made a change that cannot be sent: "+format, args...)
}
