package responses

import (
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// NewRequest returns the body of a new request.
//
// A first message of [abi.RoleSystem] with a text is the field instructions. Reasoning without encrypted content is
// left out, since the upstream finds it only if it has stored it, and so is reasoning of other APIs; other parts that
// the ABI does not define are items of the API. The answer is not stored unless the parameter store says so.
//
// Parameters have the names of chat completions where there are such, otherwise those of the API.
func (Protocol) NewRequest(call *wire.Call) ([]byte, error) {
	fields, err := newParams(call.Params)
	if err != nil {
		return nil, err
	}
	messages := call.Messages
	first := 0
	if len(messages) > 0 && isInstructions(&messages[0]) {
		fields["instructions"] = rawjson.Quote(messages[0].Content.String())
		first = 1
	}
	c := &composer{stored: rawjson.Value{Text: fields["store"]}.IsTrue()}
	for i := first; i < len(messages); i++ {
		if err := c.message(&messages[i], "messages["+strconv.Itoa(i)+"]"); err != nil {
			return nil, err
		}
	}
	fields["model"], fields["input"] = rawjson.Quote(call.Model), rawjson.Array(c.items)
	if call.Stream {
		fields["stream"] = []byte("true")
	}
	if len(call.Tools) > 0 {
		list := make([][]byte, len(call.Tools))
		for i := range call.Tools {
			list[i] = newTool(&call.Tools[i])
		}
		fields["tools"] = rawjson.Array(list)
	}
	if fields["store"] == nil {
		fields["store"] = []byte("false")
	}
	return newBody(fields)
}

// isInstructions reports whether the content of a message can be the field instructions.
func isInstructions(m *abi.Message) bool {
	return m.Role == abi.RoleSystem && !m.Content.IsParts() && m.Name == ""
}

// newBody returns an object with the given members. It fails if a member from outside, such as the
// schema of a tool, is not valid JSON.
func newBody(fields map[string][]byte) ([]byte, error) {
	e := rawjson.Edits{Doc: []byte("{}")}
	e.Members(rawjson.Value{Text: e.Doc}, fields)
	body := e.Apply()
	if _, err := rawjson.Parse(body); err != nil {
		return nil, invalid("", "the request cannot be sent: %v", err)
	}
	return body, nil
}

// newParams returns the fields of a new request for the parameters of a call.
func newParams(params abi.Params) (map[string][]byte, error) {
	list, err := wire.SortedParams(params, reserved...)
	if err != nil {
		return nil, err
	}
	r := &request{}
	fields := map[string][]byte{}
	for _, p := range list {
		_, isNested := nested[p.Name]
		switch {
		case isNested, wire.IsDefault(p.Name, p.Value) && p.Name != "store":
		case slices.Contains(absent, p.Name):
			return nil, wire.Unsupported(p.Name, "the Responses API")
		default:
			if err := r.editParam(fields, p.Name, p.Value); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range list { // after the fields that they are members of
		if _, ok := nested[p.Name]; ok && !wire.IsDefault(p.Name, p.Value) {
			r.editNested(fields, p.Name, p.Value.Text)
		}
	}
	return fields, nil
}

// A composer makes the input of a new request.
type composer struct {
	items  [][]byte
	stored bool // the upstream finds items by their ID
}

func (c *composer) add(item []byte) { c.items = append(c.items, item) }

// message appends the items of a message. Errors name the message with where.
func (c *composer) message(m *abi.Message, where string) error {
	if m.Name != "" && m.Role != abi.RoleTool {
		return invalid(where+".name", "the Responses API has no names of participants")
	}
	switch m.Role {
	case abi.RoleSystem, abi.RoleDeveloper, abi.RoleUser:
		content, err := newContent(m.Content, textType(m.Role))
		if err != nil {
			return invalid(where+".content", "%s: %v", where, err)
		}
		c.add(newObject(str("type", "message"), str("role", m.Role), field{"content", content}))
	case abi.RoleTool:
		output, err := newContent(m.Content, "input_text")
		if err != nil {
			return invalid(where+".content", "%s: %v", where, err)
		}
		c.add(newObject(str("type", "function_call_output"), str("call_id", m.ToolCallID), field{"output", output}))
	case abi.RoleAssistant:
		return c.assistant(m, where)
	default:
		return invalid(where+".role", "%s.role must be system, developer, user, assistant or tool", where)
	}
	return nil
}

// assistant appends the items of a message of the assistant: its texts and its opaque parts in their order, and then
// its calls.
func (c *composer) assistant(m *abi.Message, where string) error {
	var texts []abi.Part
	flush := func() error {
		if len(texts) == 0 {
			return nil
		}
		content, err := newContent(abi.Parts(texts...), textType(m.Role))
		if err != nil {
			return invalid(where+".content", "%s: %v", where, err)
		}
		c.add(newObject(str("type", "message"), str("role", m.Role), field{"content", content}))
		texts = nil
		return nil
	}
	parts := m.Content.Parts()
	for _, p := range wire.Ordered(parts) {
		switch {
		case !wire.Opaque(&p):
			if p.Type != abi.PartText || p.Text != "" {
				texts = append(texts, p)
			}
			continue
		case wire.IsReasoning(&p) && !c.keeps(&p):
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		item, err := p.MarshalJSON()
		if err != nil {
			return invalid(where+".content", "%s: %v", where, err)
		}
		c.add(item)
	}
	if err := flush(); err != nil {
		return err
	}
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		if call.ID == "" || call.Function.Name == "" {
			return invalid(where+".tool_calls", "%s has a call without an id or a name", where)
		}
		c.add(newObject(str("type", "function_call"), str("call_id", call.ID), str("name", call.Function.Name),
			str("arguments", call.Function.Arguments)))
	}
	return nil
}

// keeps reports whether the upstream can read a part with reasoning.
func (c *composer) keeps(p *abi.Part) bool {
	if p.Type != "reasoning" {
		return false
	}
	return c.stored || slices.ContainsFunc(p.Unknown, func(f abi.Field) bool {
		return f.Name == "encrypted_content" && len(f.Value) > 0 && f.Value[0] == '"' && string(f.Value) != `""`
	})
}
