package mcp

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/url"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agent-runner/agent-runner/abi"
)

// result converts a result to the form of the OpenAI chat API: content that is only text becomes a
// string, any other content an array of parts.
func result(r *sdk.CallToolResult) *abi.Result {
	parts := make([]abi.Part, 0, len(r.Content))
	var texts []string
	for _, c := range r.Content {
		p := part(c)
		if p.Type == abi.PartText {
			texts = append(texts, p.Text)
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		texts, parts = append(texts, string(marshal(r.StructuredContent))), append(parts, abi.Part{})
	}
	if len(texts) == len(parts) {
		return &abi.Result{Content: abi.Text(strings.Join(texts, "\n")), IsError: r.IsError}
	}
	return &abi.Result{Content: abi.Parts(parts...), IsError: r.IsError}
}

func part(c sdk.Content) abi.Part {
	switch c := c.(type) {
	case *sdk.TextContent:
		return text(c.Text)
	case *sdk.ImageContent:
		return data(c.MIMEType, "", c.Data)
	case *sdk.AudioContent:
		return data(c.MIMEType, "", c.Data)
	case *sdk.ResourceLink:
		return text(link(c))
	case *sdk.EmbeddedResource:
		return resource(c.Resource)
	default:
		return text(fmt.Sprintf("[left out: content of an unknown kind, %T]", c))
	}
}

func text(s string) abi.Part {
	return abi.Part{Type: abi.PartText, Text: strings.ToValidUTF8(s, "\ufffd")}
}

// data returns the part for bytes of a media type.
func data(mediaType, name string, b []byte) abi.Part {
	kind, _, err := mime.ParseMediaType(mediaType)
	if err != nil || !strings.Contains(kind, "/") {
		kind = "application/octet-stream"
	}
	encoded := base64.StdEncoding.EncodeToString(b)
	dataURL := "data:" + kind + ";base64," + encoded
	family, format, _ := strings.Cut(kind, "/")
	switch family {
	case "image":
		return abi.Part{Type: abi.PartImage, ImageURL: marshal(map[string]string{"url": dataURL})}
	case "audio":
		return abi.Part{
			Type:       abi.PartAudio,
			InputAudio: marshal(map[string]string{"data": encoded, "format": audioFormat(format)}),
		}
	default:
		return abi.Part{
			Type: abi.PartFile,
			File: marshal(map[string]string{"filename": or(name, "file"), "file_data": dataURL}),
		}
	}
}

// audioFormat returns the chat API's name of an audio subtype.
func audioFormat(subtype string) string {
	switch subtype = strings.TrimPrefix(subtype, "x-"); subtype {
	case "mpeg", "mpeg3", "mp3":
		return "mp3"
	case "wave", "vnd.wave", "pn-wav":
		return "wav"
	default:
		return subtype
	}
}

func resource(r *sdk.ResourceContents) abi.Part {
	switch {
	case r == nil:
		return text("[left out: an empty resource]")
	case r.Blob == nil:
		return text(fmt.Sprintf("Resource %s:\n%s", r.URI, r.Text))
	default:
		return data(r.MIMEType, fileName(r.URI), r.Blob)
	}
}

// fileName returns the last element of a resource's URI, or "" if it has none.
func fileName(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	name := path.Base(or(u.Path, u.Opaque))
	if name == "." || name == ".." || name == "/" {
		return ""
	}
	return strings.ToValidUTF8(name, "\ufffd")
}

// link describes a resource that the model may read with another tool.
func link(l *sdk.ResourceLink) string {
	s := "Resource " + l.URI
	for _, more := range []string{or(l.Title, l.Name), l.Description, l.MIMEType} {
		if more != "" {
			s += "; " + more
		}
	}
	if l.Size != nil {
		s += fmt.Sprintf("; %d bytes", *l.Size)
	}
	return s
}
