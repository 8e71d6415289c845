package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/modelapi"
)

// maxFields is the maximum number of unknown fields of a message.
const maxFields = 256

// An answer assembles a response from events and sends its deltas to the sink. A complete message
// counts as one large delta.
type answer struct {
	client *client
	sink   func(abi.Chunk) error

	chosen    bool // an event had the first choice
	content   content
	reasoning strings.Builder
	calls     calls
	unknown   abi.Fields
	finish    string
	usage     *abi.Usage
}

// event processes raw, one event of the answer.
func (a *answer) event(raw []byte) error {
	raw, err := strict(raw)
	if err != nil {
		return a.client.at.BrokenOff("an event that is not JSON: " + a.client.at.Short(string(raw)))
	}
	var e struct {
		Error   json.RawMessage   `json:"error"`
		Choices []json.RawMessage `json:"choices"`
		Usage   json.RawMessage   `json:"usage"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return a.client.at.BrokenOff("an event of another shape: " + a.client.at.Short(string(raw)))
	}
	if isSet(e.Error) || len(e.Choices) == 0 && modelapi.IsProblem(raw) {
		return a.client.at.Reported(raw)
	}
	if isSet(e.Usage) {
		a.usage = usage(e.Usage)
	}
	for _, c := range e.Choices {
		if err := a.choice(c); err != nil {
			return err
		}
	}
	return nil
}

// choice processes a delta of the first choice. Other choices are ignored.
func (a *answer) choice(raw json.RawMessage) error {
	var c struct {
		Index   json.Number     `json:"index"`
		Delta   json.RawMessage `json:"delta"`
		Message json.RawMessage `json:"message"`
		Finish  json.RawMessage `json:"finish_reason"`
		Error   json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return a.client.at.BrokenOff("a choice of another shape: " + a.client.at.Short(string(raw)))
	}
	if c.Index != "" && c.Index != "0" {
		return nil
	}
	if isSet(c.Error) {
		return a.client.at.Reported(raw)
	}
	a.chosen = true
	piece, whole := c.Delta, false
	if !isSet(piece) {
		piece, whole = c.Message, true
	}
	if isSet(piece) {
		if err := a.piece(piece, whole); err != nil {
			return err
		}
	}
	if f := str(c.Finish); f != "" {
		a.finish = f
		return a.calls.flush(a.emit)
	}
	return nil
}

// piece processes a delta of the message, or all of it if whole is set.
func (a *answer) piece(raw json.RawMessage, whole bool) error {
	fields, err := fieldsOf(raw)
	if err != nil {
		return a.client.at.BrokenOff("a message of another shape: " + a.client.at.Short(string(raw)))
	}
	if err := a.addReasoning(fields); err != nil {
		return err
	}
	for _, f := range fields {
		switch f.Name {
		case "role", "id", "extra", "origin": // the host sets these fields itself
		case "reasoning_content", "reasoning":
			if !isText(f.Value) && isSet(f.Value) {
				a.keep(f)
			}
		case "content":
			err = a.addText(f.Value)
		case "tool_calls":
			err = a.call(f.Value, whole)
		default:
			a.keep(f)
		}
		if err != nil {
			return err
		}
	}
	if len(a.unknown) > maxFields {
		return model.Errorf(abi.CodeModel, "%s answered with a message of more than %d fields", a.client.at.Shown, maxFields)
	}
	return nil
}

// addReasoning processes the reasoning. Endpoints use two names for it; if both are present, they have the
// same text.
func (a *answer) addReasoning(fields abi.Fields) error {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		i := slices.IndexFunc(fields, func(f abi.Field) bool { return f.Name == name })
		if i < 0 {
			continue
		}
		if s := str(fields[i].Value); s != "" {
			a.client.shortReasoning.Store(name == "reasoning")
			a.reasoning.WriteString(s)
			return a.emit(abi.Chunk{Kind: abi.ChunkReasoning, Text: s})
		}
	}
	return nil
}

func (a *answer) addText(raw json.RawMessage) error {
	switch raw[0] {
	case 'n':
		return nil
	case '"':
		return a.part(abi.Part{Type: abi.PartText, Text: str(raw)})
	}
	var parts []abi.Part
	if err := json.Unmarshal(raw, &parts); err != nil {
		return a.client.at.BrokenOff("content of another shape: " + a.client.at.Short(string(raw)))
	}
	for _, p := range parts {
		if err := a.part(p); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) part(p abi.Part) error {
	a.content.add(p)
	switch {
	case p.Type != abi.PartText:
		return a.emit(abi.Chunk{Kind: abi.ChunkPart, Part: &p})
	case p.Text != "":
		return a.emit(abi.Chunk{Kind: abi.ChunkText, Text: p.Text})
	}
	return nil
}

// call processes deltas of tool calls, or complete calls if whole is set.
func (a *answer) call(raw json.RawMessage, whole bool) error {
	if !isSet(raw) {
		return nil
	}
	var pieces []json.RawMessage
	if err := json.Unmarshal(raw, &pieces); err != nil {
		return a.client.at.BrokenOff("tool calls of another shape: " + a.client.at.Short(string(raw)))
	}
	for _, p := range pieces {
		piece, err := callPieceOf(p)
		if err != nil {
			return a.client.at.BrokenOff("a tool call of another shape: " + a.client.at.Short(string(p)))
		}
		if err := a.calls.add(piece, whole, a.emit); err != nil {
			return err
		}
	}
	return nil
}

// keep merges a field that the host does not know into a.unknown. It concatenates strings and arrays,
// and ignores null if the field is present. Any other value replaces the previous one.
func (a *answer) keep(f abi.Field) { a.unknown = keep(a.unknown, f) }

// keep returns fields with f merged as [answer.keep] describes.
func keep(fields abi.Fields, f abi.Field) abi.Fields {
	for i := range fields {
		old := &fields[i]
		if old.Name != f.Name {
			continue
		}
		switch {
		case f.Value[0] == 'n':
		case f.Value[0] == '"' && old.Value[0] == '"', f.Value[0] == '[' && old.Value[0] == '[':
			old.Value = join(old.Value, f.Value)
		default:
			old.Value = f.Value
		}
		return fields
	}
	return append(fields, f)
}

// join concatenates two JSON strings or two JSON arrays.
func join(a, b json.RawMessage) json.RawMessage {
	if len(a) > 2 && len(b) > 2 && a[0] == '[' {
		a = append(a[:len(a)-1], ',')
	} else {
		a = a[:len(a)-1]
	}
	return append(a, b[1:]...)
}

func (a *answer) emit(c abi.Chunk) error {
	if a.sink == nil {
		return nil
	}
	return a.sink(c)
}

// end returns the response after the last event. A streamed answer is complete only if it has a
// finish reason; a document is complete if it has a first choice.
func (a *answer) end(document bool) (*abi.Response, error) {
	switch {
	case document && !a.chosen:
		return nil, a.client.at.BrokenOff("no choices")
	case !document && a.finish == "":
		return nil, a.client.at.BrokenOff("a stream that ends without a finish_reason")
	}
	if err := a.calls.flush(a.emit); err != nil {
		return nil, err
	}
	m := abi.Message{
		Role: abi.RoleAssistant, Content: a.content.content(), ReasoningContent: a.reasoning.String(),
		ToolCalls: a.calls.calls(), Unknown: a.unknown,
	}
	if m.Content.IsNull() && len(m.ToolCalls) == 0 {
		m.Content = abi.Text("")
	} else if len(m.ToolCalls) > 0 && !m.Content.IsParts() && m.Content.String() == "" {
		m.Content = abi.Content{} // some endpoints send "" but reject it in requests
	}
	if a.finish == "" {
		a.finish = abi.FinishStop
		if len(m.ToolCalls) > 0 {
			a.finish = abi.FinishToolCalls
		}
	}
	return &abi.Response{Message: m, FinishReason: a.finish, Usage: a.usage}, nil
}

// A content assembles the content of a message from its deltas.
type content struct {
	pieces []contentPiece
}

type contentPiece struct {
	part abi.Part
	text *strings.Builder // set for a text part without other fields
}

// add adds a part. It joins adjacent text parts that have no other fields.
func (c *content) add(p abi.Part) {
	if p.Type != abi.PartText || len(p.Unknown) > 0 {
		c.pieces = append(c.pieces, contentPiece{part: p})
		return
	}
	if n := len(c.pieces); n == 0 || c.pieces[n-1].text == nil {
		c.pieces = append(c.pieces, contentPiece{part: p, text: new(strings.Builder)})
	}
	c.pieces[len(c.pieces)-1].text.WriteString(p.Text)
}

// content returns the assembled content: null if there are no pieces, a string if there is only
// text, and parts otherwise.
func (c *content) content() abi.Content {
	if len(c.pieces) == 0 {
		return abi.Content{}
	}
	if len(c.pieces) == 1 && c.pieces[0].text != nil {
		return abi.Text(c.pieces[0].text.String())
	}
	var parts []abi.Part
	for _, p := range c.pieces {
		if p.text != nil {
			p.part.Text = p.text.String()
		}
		if p.text == nil || p.part.Text != "" {
			parts = append(parts, p.part)
		}
	}
	return abi.Parts(parts...)
}

// usage decodes the token counts. A count that is not a number from 0 to 2^53 becomes 0. A total of
// 0 becomes the sum of the other counts.
func usage(raw json.RawMessage) *abi.Usage {
	var u map[string]json.RawMessage
	if json.Unmarshal(raw, &u) != nil {
		return nil
	}
	number := func(name string) int64 {
		var f float64
		if json.Unmarshal(u[name], &f) != nil || f < 0 || f > 1<<53 {
			return 0
		}
		return int64(f)
	}
	out := abi.Usage{
		PromptTokens: number(
			"prompt_tokens",
		), CompletionTokens: number("completion_tokens"), TotalTokens: number("total_tokens"),
	}
	if out.TotalTokens == 0 {
		out.TotalTokens = out.PromptTokens + out.CompletionTokens
	}
	return &out
}

// strict returns JSON that package abi accepts. It repairs JSON that only encoding/json accepts,
// with the result of encoding/json: an invalid byte becomes U+FFFD, and the last of several values
// for a key wins.
func strict(raw []byte) ([]byte, error) {
	if jsoncodec.Valid(raw) == nil {
		return raw, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return raw, err
	}
	b, err := abijson.Marshal(v)
	if err != nil {
		return raw, err
	}
	return b, jsoncodec.Valid(b)
}

// fieldsOf returns the fields of an object in order.
func fieldsOf(raw json.RawMessage) (abi.Fields, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, model.Errorf(abi.CodeModel, "not an object")
	}
	var out abi.Fields
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		f := abi.Field{Name: name.(string)}
		if err := dec.Decode(&f.Value); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// isSet reports whether a field is present and not null.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] != 'n' }

func isText(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

// str returns the value of a JSON string, or "" for any other value.
func str(raw json.RawMessage) string {
	var s string
	if !isText(raw) || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
