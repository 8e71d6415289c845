package agui

import (
	"encoding/json"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// contentOf converts the content of a message or result to AG-UI's form: a string, or parts if the
// content consists of parts. It drops parts that AG-UI cannot represent, and returns "" if none is
// left.
func contentOf(c abi.Content) any {
	if !c.IsParts() {
		return c.String()
	}
	var out []part
	for _, p := range c.Parts() {
		if one, ok := partOf(p); ok {
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return out
}

// partOf converts a part to AG-UI's form. It returns false if the part is malformed or if AG-UI has
// no such kind of part.
func partOf(p abi.Part) (part, bool) {
	var image struct{ URL string }
	var audio struct{ Data, Format string }
	var file struct {
		FileID   string `json:"file_id"`
		FileData string `json:"file_data"`
	}
	switch p.Type {
	case abi.PartText:
		return part{Type: "text", Text: p.Text}, true
	case abi.PartImage:
		if json.Unmarshal(p.ImageURL, &image) == nil && image.URL != "" {
			return part{Type: "image", Source: sourceOf(image.URL)}, true
		}
	case abi.PartAudio:
		if json.Unmarshal(p.InputAudio, &audio) == nil {
			return part{Type: "audio", Source: &source{Type: "data", Value: audio.Data, MIMEType: "audio/" + audio.Format}}, true
		}
	case abi.PartFile:
		if json.Unmarshal(p.File, &file) != nil {
			break
		}
		if file.FileData != "" {
			return part{Type: "document", Source: sourceOf(file.FileData)}, true
		}
		return part{Type: "document", Source: &source{Type: "file", Value: file.FileID}}, true
	}
	return part{}, false
}

// sourceOf returns the source for a URL, which may be a data URL.
func sourceOf(url string) *source {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		if mime, data, ok := strings.Cut(rest, ";base64,"); ok {
			return &source{Type: "data", Value: data, MIMEType: mime}
		}
	}
	return &source{Type: "url", Value: url}
}

// url returns the source as a URL.
func (s *source) url() string {
	if s.Type == "data" {
		return "data:" + s.MIMEType + ";base64," + s.Value
	}
	return s.Value
}

// toABI converts a client's part to OpenAI's form. It fails if the part has no source but needs one,
// or if OpenAI's form has no such part.
func (p *part) toABI() (abi.Part, error) {
	var out abi.Part
	var err error
	switch {
	case p.Type == "text":
		return abi.Part{Type: abi.PartText, Text: p.Text}, nil
	case p.Source == nil:
		return out, invalid("a part of type %q needs a source", p.Type)
	case p.Type == "image":
		out.Type = abi.PartImage
		out.ImageURL, err = abijson.Marshal(map[string]string{"url": p.Source.url()})
	case p.Type == "audio" && p.Source.Type == "data":
		out.Type = abi.PartAudio
		out.InputAudio, err = abijson.Marshal(
			map[string]string{"data": p.Source.Value, "format": strings.TrimPrefix(p.Source.MIMEType, "audio/")},
		)
	case p.Type == "document" && p.Source.Type == "file":
		out.Type = abi.PartFile
		out.File, err = abijson.Marshal(map[string]string{"file_id": p.Source.Value})
	case p.Type == "document":
		out.Type = abi.PartFile
		out.File, err = abijson.Marshal(map[string]string{"file_data": p.Source.url()})
	default:
		return out, invalid(
			"a part of type %q with a source of type %q cannot be sent to a model; send text, image, audio as data, or document",
			p.Type,
			p.Source.Type,
		)
	}
	return out, err
}
