package eino

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/schema"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// A conversation converts between an Eino agent's messages and the chain's list. Unchanged messages
// keep their position in the list, so that modules need not read them again, and messages that no
// module changed remain the same objects in Eino.
type conversation struct {
	mu    sync.Mutex
	revs  *message.Revisions
	list  *message.List
	known []known
	ids   int
}

// known holds a message and a copy of its fields as they were last read or written. The copy
// reveals changes by Eino's other middlewares.
type known struct {
	message *schema.Message
	was     schema.Message
	calls   []schema.ToolCall
}

func newConversation() *conversation {
	revs := message.NewRevisions()
	return &conversation{revs: revs, list: message.NewList(revs, nil)}
}

// read converts messages to a list. If they only extend the messages last read or written, it
// appends to that list, so that modules read only the new messages.
func (c *conversation) read(messages []*schema.Message) (*message.List, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := 0
	for same < len(messages) && same < len(c.known) && c.known[same].is(messages[same]) {
		same++
	}
	added := make([]abi.Message, 0, len(messages)-same)
	for _, m := range messages[same:] {
		converted, err := fromEino(m)
		if err != nil {
			return nil, err
		}
		if converted.ID == "" {
			c.ids++
			converted.ID = "eino_" + strconv.Itoa(c.ids)
		}
		added = append(added, converted)
	}
	if same == len(c.known) {
		c.list = c.list.Append(added...)
	} else {
		all := make([]abi.Message, 0, len(messages))
		for i := range same {
			all = append(all, c.list.At(i))
		}
		c.list = message.NewList(c.revs, append(all, added...))
	}
	c.known = c.known[:same]
	for _, m := range messages[same:] {
		c.known = append(c.known, remember(m))
	}
	return c.list, nil
}

// write converts list, which must derive from the list that read last returned, to Eino's messages,
// and makes list the current one. A message that no module changed remains the same object.
func (c *conversation) write(list *message.List) ([]*schema.Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := list.Len()
	if list.Revision() != c.list.Revision() {
		first = min(list.Changed(c.list.Revision()), len(c.known))
	}
	out := make([]*schema.Message, 0, list.Len())
	for i := range first {
		out = append(out, c.known[i].message)
	}
	for i := first; i < list.Len(); i++ {
		m := list.At(i)
		base, was := c.find(m.ID)
		if base != nil && equal(was, m) {
			out = append(out, base)
			continue
		}
		converted, err := toEino(m, base)
		if err != nil {
			return nil, err
		}
		out = append(out, converted)
	}
	c.list, c.known = list, make([]known, 0, len(out))
	for _, m := range out {
		c.known = append(c.known, remember(m))
	}
	return out, nil
}

// find returns the message with the given ID from the list last read or written, in Eino's form and
// in the chain's. It returns nil if the list has no such message.
func (c *conversation) find(id string) (*schema.Message, abi.Message) {
	for i := range c.known {
		if m := c.list.At(i); m.ID == id {
			return c.known[i].message, m
		}
	}
	return nil, abi.Message{}
}

// equal reports whether a and b have the same JSON encoding.
func equal(a, b abi.Message) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && bytes.Equal(x, y)
}

func remember(m *schema.Message) known { return known{m, *m, slices.Clone(m.ToolCalls)} }

// is reports whether m is the message in k, and unchanged since k was made. It ignores Extra, and
// compares only the number of multimodal parts.
func (k *known) is(m *schema.Message) bool {
	w := &k.was
	return k.message == m && w.Role == m.Role && w.Content == m.Content && w.Name == m.Name &&
		w.ToolCallID == m.ToolCallID && w.ReasoningContent == m.ReasoningContent &&
		len(w.UserInputMultiContent) == len(m.UserInputMultiContent) &&
		len(w.AssistantGenMultiContent) == len(m.AssistantGenMultiContent) &&
		slices.EqualFunc(k.calls, m.ToolCalls, func(a, b schema.ToolCall) bool {
			return a.ID == b.ID && a.Function == b.Function
		})
}

var origins = map[schema.RoleType]string{
	schema.User:      abi.OriginUser,
	schema.System:    abi.OriginUser,
	schema.Assistant: abi.OriginModel,
	schema.Tool:      abi.OriginTool,
}

// fromEino converts an Eino message to the form that modules receive. It fails if a part or the
// field Extra cannot be encoded as JSON.
func fromEino(m *schema.Message) (abi.Message, error) {
	out := abi.Message{
		ID:               adk.GetMessageID(m),
		Role:             string(m.Role),
		Name:             m.Name,
		ToolCallID:       m.ToolCallID,
		ReasoningContent: m.ReasoningContent,
		Origin:           origins[m.Role],
	}
	if out.Name == "" {
		out.Name = m.ToolName
	}
	parts, err := parts(m)
	if err != nil {
		return out, err
	}
	switch {
	case len(parts) > 0:
		out.Content = abi.Parts(parts...)
	case m.Content != "" || len(m.ToolCalls) == 0:
		out.Content = abi.Text(m.Content)
	}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, abi.NewToolCall(c.ID, c.Function.Name, c.Function.Arguments))
	}
	if len(m.Extra) > 0 {
		if out.Extra, err = json.Marshal(m.Extra); err != nil {
			return out, fmt.Errorf("agent-runner: the extra of a %s message is no JSON: %w", m.Role, err)
		}
	}
	return out, nil
}

// parts converts the multimodal content of a message. It returns nil if the message has none.
func parts(m *schema.Message) ([]abi.Part, error) {
	var out []abi.Part
	add := func(part any) error {
		p, err := partFrom(part)
		out = append(out, p)
		return err
	}
	for i := range m.UserInputMultiContent {
		if err := add(m.UserInputMultiContent[i]); err != nil {
			return nil, err
		}
	}
	for i := range m.AssistantGenMultiContent {
		if err := add(m.AssistantGenMultiContent[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// toEino converts a message of the chain to Eino's form. If base is not nil, the result keeps the
// fields of base that modules do not see. toEino fails if the field Extra is not a JSON object or
// if a part has no form in Eino.
func toEino(m abi.Message, base *schema.Message) (*schema.Message, error) {
	out := &schema.Message{}
	if base != nil {
		*out = *base
	}
	out.Role, out.Name = schema.RoleType(m.Role), m.Name
	out.ToolCallID, out.ReasoningContent = m.ToolCallID, m.ReasoningContent
	if m.Role == abi.RoleDeveloper {
		out.Role = schema.System
	}
	if m.Role == abi.RoleTool {
		out.ToolName, out.Name = m.Name, ""
	}
	var calls []schema.ToolCall
	for _, c := range m.ToolCalls {
		call := schema.ToolCall{ID: c.ID, Type: "function"}
		if i := slices.IndexFunc(out.ToolCalls, func(t schema.ToolCall) bool { return t.ID == c.ID }); i >= 0 {
			call = out.ToolCalls[i]
		}
		call.Function = schema.FunctionCall{Name: c.Function.Name, Arguments: c.Function.Arguments}
		calls = append(calls, call)
	}
	out.ToolCalls = calls
	if len(m.Extra) > 0 {
		out.Extra = nil
		if err := json.Unmarshal(m.Extra, &out.Extra); err != nil {
			return nil, err
		}
	}
	return out, setContent(out, m, base)
}

// setContent sets the content of out to the content of m. For a part that is unchanged from base,
// it uses the original part.
func setContent(out *schema.Message, m abi.Message, base *schema.Message) error {
	out.Content, out.MultiContent, out.UserInputMultiContent, out.AssistantGenMultiContent = "", nil, nil, nil
	if !m.Content.IsParts() {
		out.Content = m.Content.String()
		return nil
	}
	for _, p := range m.Content.Parts() {
		var err error
		if out.Role == schema.Assistant {
			var part schema.MessageOutputPart
			if part, err = partTo(p, outputParts(base)); err == nil {
				out.AssistantGenMultiContent = append(out.AssistantGenMultiContent, part)
			}
		} else {
			var part schema.MessageInputPart
			if part, err = partTo(p, inputParts(base)); err == nil {
				out.UserInputMultiContent = append(out.UserInputMultiContent, part)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func inputParts(m *schema.Message) []schema.MessageInputPart {
	if m == nil {
		return nil
	}
	return m.UserInputMultiContent
}

func outputParts(m *schema.Message) []schema.MessageOutputPart {
	if m == nil {
		return nil
	}
	return m.AssistantGenMultiContent
}

// common holds the fields that the parts of Eino's messages and results share in JSON.
type common struct {
	Type  string `json:"type"`
	Text  string `json:"text,omitempty"`
	Image *media `json:"image,omitempty"`
	Audio *media `json:"audio,omitempty"`
	File  *media `json:"file,omitempty"`
}

type media struct {
	URL    string `json:"url,omitempty"`
	Base64 string `json:"base64data,omitempty"`
	MIME   string `json:"mime_type,omitempty"`
	Detail string `json:"detail,omitempty"`
	Name   string `json:"name,omitempty"`
}

func (m *media) url() string {
	if m.Base64 != "" {
		return "data:" + m.MIME + ";base64," + m.Base64
	}
	return m.URL
}

// mediaOf returns the media that a URL refers to. It decomposes base64 data URLs.
func mediaOf(url string) *media {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		if mime, data, ok := strings.Cut(rest, ";base64,"); ok {
			return &media{Base64: data, MIME: mime}
		}
	}
	return &media{URL: url}
}

// The types of Eino's parts.
const (
	einoText  = "text"
	einoImage = "image_url"
	einoAudio = "audio_url"
	einoFile  = "file_url"
)

// partFrom converts a part to OpenAI's form. A part without one, such as a video, keeps Eino's
// form, which modules can read and return unchanged.
func partFrom(part any) (abi.Part, error) {
	b, err := json.Marshal(part)
	if err != nil {
		return abi.Part{}, err
	}
	var c common
	if err := json.Unmarshal(b, &c); err != nil {
		return abi.Part{}, err
	}
	var out abi.Part
	switch {
	case c.Type == einoText:
		out = abi.Part{Type: abi.PartText, Text: c.Text}
	case c.Type == einoImage && c.Image != nil:
		out.Type = abi.PartImage
		out.ImageURL, err = json.Marshal(map[string]string{"url": c.Image.url(), "detail": either(c.Image.Detail, "auto")})
	case c.Type == einoAudio && c.Audio != nil && c.Audio.Base64 != "":
		out.Type = abi.PartAudio
		out.InputAudio, err = json.Marshal(
			map[string]string{"data": c.Audio.Base64, "format": strings.TrimPrefix(c.Audio.MIME, "audio/")},
		)
	case c.Type == einoFile && c.File != nil:
		out.Type = abi.PartFile
		out.File, err = json.Marshal(map[string]string{"filename": c.File.Name, "file_data": c.File.url()})
	default:
		err = json.Unmarshal(b, &out)
	}
	return out, err
}

// partTo converts p to Eino's form. If p is unchanged since it was converted from a part in base,
// partTo returns that part. It fails if the type of p has no form in Eino.
func partTo[P any](p abi.Part, base []P) (out P, err error) {
	want, err := json.Marshal(p)
	if err != nil {
		return out, err
	}
	for _, b := range base {
		was, err := partFrom(b)
		if err != nil {
			return out, err
		}
		if have, err := json.Marshal(was); err == nil && bytes.Equal(have, want) {
			return b, nil
		}
	}
	var c common
	var image struct{ URL, Detail string }
	var audio struct{ Data, Format string }
	var file struct {
		Filename string
		FileData string `json:"file_data"`
	}
	switch p.Type {
	case abi.PartText:
		c = common{Type: einoText, Text: p.Text}
	case abi.PartImage:
		err = json.Unmarshal(p.ImageURL, &image)
		c = common{Type: einoImage, Image: mediaOf(image.URL)}
		c.Image.Detail = image.Detail
	case abi.PartAudio:
		err = json.Unmarshal(p.InputAudio, &audio)
		c = common{Type: einoAudio, Audio: &media{Base64: audio.Data, MIME: "audio/" + audio.Format}}
	case abi.PartFile:
		err = json.Unmarshal(p.File, &file)
		c = common{Type: einoFile, File: mediaOf(file.FileData)}
		c.File.Name = file.Filename
	default:
		return out, fmt.Errorf(
			"agent-runner: a part of type %q cannot be put into an Eino message; want text, image_url, input_audio or file",
			p.Type,
		)
	}
	if err != nil {
		return out, fmt.Errorf("agent-runner: a part of type %q: %w", p.Type, err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(b, &out)
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// current returns the list that was last read or written.
func (c *conversation) current() *message.List {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

// convert converts list like write, but does not change the conversation. The result is for a single
// model call.
func (c *conversation) convert(list *message.List) ([]*schema.Message, error) {
	c.mu.Lock()
	read, known := c.list, c.known
	c.mu.Unlock()
	return (&conversation{revs: c.revs, list: read, known: known}).write(list)
}
