package openai

import (
	"encoding/json"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

// maxCalls is the maximum number of tool calls in a message.
const maxCalls = 1024

// A callPiece is a delta of a tool call as received.
type callPiece struct {
	index     string // as received, or empty
	id        string
	kind      string
	name      string
	arguments string
	unknown   abi.Fields
}

func callPieceOf(raw json.RawMessage) (callPiece, error) {
	var p callPiece
	fields, err := fieldsOf(raw)
	if err != nil {
		return p, err
	}
	for _, f := range fields {
		switch f.Name {
		case "index":
			if isSet(f.Value) {
				p.index = string(f.Value)
			}
		case "id":
			p.id = str(f.Value)
		case "type":
			p.kind = str(f.Value)
		case "function":
			if err := p.function(f.Value); err != nil {
				return p, err
			}
		default:
			p.unknown = append(p.unknown, f)
		}
	}
	return p, nil
}

// function decodes the name and the arguments. Some endpoints send the arguments as an object
// instead of a string that contains one.
func (p *callPiece) function(raw json.RawMessage) error {
	if !isSet(raw) {
		return nil
	}
	var f struct {
		Name      json.RawMessage `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return err
	}
	p.name, p.arguments = str(f.Name), str(f.Arguments)
	if isSet(f.Arguments) && !isText(f.Arguments) {
		p.arguments = string(f.Arguments)
	}
	return nil
}

// calls assembles tool calls from deltas. A delta belongs to the call with its index, or else with
// its id, or else to the last call.
type calls struct {
	client  *client
	list    []*toolCall
	byIndex map[string]*toolCall
}

type toolCall struct {
	index     int // index in the message
	id        string
	kind      string
	name      string
	arguments strings.Builder
	braces    braces
	unknown   abi.Fields

	// The part of the call that was sent to the sink.
	begun, sentID, sentName bool
	sent                    int // bytes of the arguments
}

// add processes a delta. It emits chunks once the call has a name and some arguments, so that the
// first chunk has the id and the complete name.
func (c *calls) add(p callPiece, whole bool, emit func(abi.Chunk) error) error {
	t := c.find(p, whole)
	if t == nil {
		if len(c.list) == maxCalls {
			return model.Errorf(abi.CodeModel, "%s answered with more than %d tool calls", c.client.at.Shown, maxCalls)
		}
		if err := c.flush(emit); err != nil {
			return err
		}
		t = &toolCall{index: len(c.list)}
		c.list = append(c.list, t)
	}
	if p.index != "" {
		if c.byIndex == nil {
			c.byIndex = map[string]*toolCall{}
		}
		c.byIndex[p.index] = t
	}
	t.take(p)
	if t.name == "" || t.arguments.Len() == 0 {
		return nil
	}
	return t.send(emit)
}

// find returns the call that a delta belongs to, or nil if the delta begins a call.
func (c *calls) find(p callPiece, whole bool) *toolCall {
	if whole || len(c.list) == 0 {
		return nil
	}
	t := c.list[len(c.list)-1]
	if p.index != "" {
		t = c.byIndex[p.index]
	} else if p.id != "" && p.id != t.id && t.id != "" {
		return c.byID(p.id)
	}
	if t == nil || p.begins(t) {
		return nil
	}
	return t
}

func (c *calls) byID(id string) *toolCall {
	for _, t := range c.list {
		if t.id == id {
			return t
		}
	}
	return nil
}

// begins reports whether a delta begins a new call, although it has the index of t: some endpoints
// use the same index for all calls, and others repeat the name or the id in each delta. A delta
// without a name never begins a call. A delta with a name begins a call in two cases. In the first,
// the arguments of t are complete and the delta's arguments start with a brace. In the second, the
// delta has another id, and the arguments of t are complete or empty.
func (p *callPiece) begins(t *toolCall) bool {
	if p.name == "" {
		return false
	}
	if t.braces.closed && strings.HasPrefix(p.arguments, "{") {
		return true
	}
	return p.id != "" && t.id != "" && p.id != t.id && (t.braces.closed || t.arguments.Len() == 0)
}

// take adds a delta to the call.
func (t *toolCall) take(p callPiece) {
	if t.id == "" {
		t.id = p.id
	}
	if t.kind == "" {
		t.kind = p.kind
	}
	// Endpoints send a name at once, in pieces, or repeated in each delta.
	if p.name != t.name && t.arguments.Len() == 0 {
		t.name += p.name
	}
	t.arguments.WriteString(p.arguments)
	t.braces.read(p.arguments)
	for _, f := range p.unknown {
		t.unknown = keep(t.unknown, f)
	}
}

// send sends the part of the call that was not sent yet.
func (t *toolCall) send(emit func(abi.Chunk) error) error {
	c := abi.Chunk{Kind: abi.ChunkToolCall, Index: t.index, Arguments: t.arguments.String()[t.sent:]}
	if !t.sentID {
		c.ID = t.id
	}
	if !t.sentName {
		c.Name = t.name
	}
	if t.begun && c.ID == "" && c.Name == "" && c.Arguments == "" {
		return nil
	}
	t.begun, t.sentID, t.sentName, t.sent = true, t.id != "", t.name != "", t.arguments.Len()
	return emit(c)
}

// flush sends the withheld parts of all calls.
func (c *calls) flush(emit func(abi.Chunk) error) error {
	for _, t := range c.list {
		if err := t.send(emit); err != nil {
			return err
		}
	}
	return nil
}

func (c *calls) calls() []abi.ToolCall {
	var out []abi.ToolCall
	for _, t := range c.list {
		call := abi.NewToolCall(t.id, t.name, t.arguments.String())
		if t.kind != "" {
			call.Type = t.kind
		}
		call.Unknown = t.unknown
		out = append(out, call)
	}
	return out
}

// braces tracks a JSON object that arrives in pieces, up to its closing brace.
type braces struct {
	depth            int
	text, escaped    bool
	closed, unusable bool
}

// read processes the next piece of the object's text. It sets closed after the closing brace, and
// unusable if the text is not an object.
func (b *braces) read(s string) {
	for i := 0; i < len(s) && !b.closed && !b.unusable; i++ {
		switch c := s[i]; {
		case b.escaped:
			b.escaped = false
		case b.text:
			b.escaped, b.text = c == '\\', c != '"'
		case c == '"' && b.depth > 0:
			b.text = true
		case c == '{':
			b.depth++
		case c == '}':
			b.depth--
			b.closed = b.depth == 0
		}
		b.unusable = b.depth <= 0 && !b.closed && !strings.ContainsRune(" \t\r\n", rune(s[i]))
	}
}
