package responses

import (
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// The IDs of messages. The ID of a message that consists of items of the input is itemPrefix and the number of its
// first item.
const (
	instructionsID = "instructions"
	inputID        = "input"
	itemPrefix     = "item-"
)

// A request is a parsed request.
type request struct {
	body  []byte
	root  rawjson.Value
	top   object
	call  wire.Call
	items []rawjson.Value // of the input, if it is an array
	spans map[string]span // the items of each message of the call, by its ID
	forms map[string]form // of calls, by their ID
	tools tools
}

// A span is the items of one message: opaque items, then a message item or none, then calls. The result of a tool is
// a span of one item.
type span struct {
	from, opaque, to int
	message          bool // whether a message item follows the opaque ones
	index            int  // of the message in the call
}

// ParseRequest parses the body of a request.
func (Protocol) ParseRequest(body []byte) (wire.Request, error) {
	root, err := rawjson.Parse(body)
	if err != nil {
		return nil, invalid("", "%v", err)
	}
	if !root.IsObject() {
		return nil, invalid("", "the request must be an object")
	}
	if next, changed := withAdded(body, root); changed {
		body, root = next, parsed(next)
	}
	r := &request{body: body, root: root, top: members(root), spans: map[string]span{}, forms: map[string]form{}}
	for _, read := range []func() error{r.readTop, r.readInput, r.readTools, r.readParams} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Call returns the request in the terms of the ABI.
func (r *request) Call() *wire.Call { return &r.call }

// readTop reads the fields that are not parameters of the model, and rejects those that refer to messages which
// the upstream stores.
func (r *request) readTop() error {
	if len(r.top) > maxFields {
		return invalid("", "the request has more than %d fields", maxFields)
	}
	if err := r.top.checkInput("request"); err != nil {
		return err
	}
	for _, name := range []string{"previous_response_id", "conversation", "prompt"} {
		if !r.top[name].IsNull() {
			return invalid(name, "%s refers to messages that are stored at the upstream, which modules cannot see; "+
				"send the whole conversation in input", name)
		}
	}
	if r.top["background"].IsTrue() {
		return invalid("background", "background responses are read from the upstream later, "+
			"where modules cannot see them; send background: false")
	}
	for _, name := range []string{"model", "instructions"} {
		if v := r.top[name]; !v.IsNull() && !v.IsString() {
			return invalid(name, "%s must be a string", name)
		}
	}
	r.call.Model, r.call.Stream = r.top["model"].String(), r.top["stream"].IsTrue()
	if v := r.top["instructions"]; v.IsString() {
		r.add(abi.Message{ID: instructionsID, Role: abi.RoleSystem, Content: abi.Text(v.String())}, span{})
	}
	return nil
}

func (r *request) add(m abi.Message, s span) {
	s.index = len(r.call.Messages)
	r.spans[m.ID] = s
	r.call.Messages = append(r.call.Messages, m)
}

func (r *request) readInput() error {
	input := r.top["input"]
	switch {
	case input.IsNull():
		return nil
	case input.IsString():
		r.add(abi.Message{ID: inputID, Role: abi.RoleUser, Content: abi.Text(input.String())}, span{})
		return nil
	case !input.IsArray():
		return invalid("input", "input must be a string or an array")
	}
	r.items = input.Elements()
	if len(r.items) > maxItems {
		return invalid("input", "input has more than %d items", maxItems)
	}
	in := &reader{request: r, names: map[string]string{}}
	for i, v := range r.items {
		if err := in.read(i, v); err != nil {
			return err
		}
	}
	in.flush()
	return nil
}

// A reader is the state of reading the items of an input.
type reader struct {
	*request
	names map[string]string // of the tools of calls, by the ID of the call
	calls int
	count int         // of parts
	msg   abi.Message // the message of the items since span.from
	parts []abi.Part  // its content, unless it is msg.Content
	span  span
}

// inputItem names an item in errors.
func inputItem(i int) string { return "input[" + strconv.Itoa(i) + "]" }

func (in *reader) read(i int, v rawjson.Value) error {
	if !v.IsObject() {
		return invalid(inputItem(i), "%s must be an object", inputItem(i))
	}
	f := members(v)
	if err := f.checkInput(inputItem(i)); err != nil {
		return err
	}
	typ := f["type"].String()
	if typ == "" && !f["role"].IsNull() {
		typ = "message"
	}
	if c, ok := readCall(typ, f); ok {
		return in.readCall(i, &c, f)
	}
	switch typ {
	case "message":
		return in.readMessage(i, f)
	case "function_call_output", "custom_tool_call_output":
		return in.readOutput(i, f)
	}
	return in.readOpaque(i, v, f)
}

// flush adds the message of the items before.
func (in *reader) flush() {
	if in.span.to > in.span.from {
		if in.parts != nil {
			in.msg.Content = abi.Parts(in.parts...)
		}
		in.msg.ID = itemPrefix + strconv.Itoa(in.span.from)
		in.add(in.msg, in.span)
	}
	in.msg, in.parts, in.span = abi.Message{}, nil, span{from: in.span.to, to: in.span.to}
}

// begin makes item i belong to the message before it if join reports so, otherwise to a new message.
func (in *reader) begin(i int, role string, join bool) {
	if !join || in.msg.Role != role {
		in.flush()
		in.msg.Role = role
	}
	in.span.to = i + 1
}

// isOpaque reports whether the current message has only opaque items.
func (in *reader) isOpaque() bool { return !in.span.message && len(in.msg.ToolCalls) == 0 }

func (in *reader) readMessage(i int, f object) error {
	role := f["role"].String()
	switch role {
	case abi.RoleSystem, abi.RoleDeveloper, abi.RoleUser, abi.RoleAssistant:
	default:
		return invalid(inputItem(i)+".role", "%s has the unknown role %.40q", inputItem(i), role)
	}
	content, err := in.readContent(f["content"], inputItem(i)+".content")
	if err != nil {
		return err
	}
	in.begin(i, role, role == abi.RoleAssistant && in.isOpaque())
	in.span.message = true
	if in.parts != nil {
		in.parts = append(in.parts, content.Parts()...)
	} else {
		in.msg.Content = content
	}
	return nil
}

func (in *reader) readCall(i int, c *call, f object) error {
	text := "arguments"
	if c.form == custom {
		text = "input"
	}
	for _, name := range []string{"call_id", "name", text} {
		if !f[name].IsString() {
			return invalid(inputItem(i)+"."+name, "%s.%s must be a string", inputItem(i), name)
		}
	}
	if f.notString("namespace") != "" {
		return invalid(inputItem(i)+".namespace", "%s.namespace must be a string", inputItem(i))
	}
	if in.calls++; in.calls > maxCalls {
		return invalid("input", "input has more than %d tool calls", maxCalls)
	}
	in.begin(i, abi.RoleAssistant, true)
	in.msg.ToolCalls = append(in.msg.ToolCalls, c.abi())
	in.names[c.id], in.forms[c.id] = c.name, c.form
	return nil
}

func (in *reader) readOutput(i int, f object) error {
	if !f["call_id"].IsString() {
		return invalid(inputItem(i)+".call_id", "%s.call_id must be a string", inputItem(i))
	}
	content, err := in.readContent(f["output"], inputItem(i)+".output")
	if err != nil {
		return err
	}
	id := f["call_id"].String()
	in.begin(i, abi.RoleTool, false)
	in.msg.ToolCallID, in.msg.Name, in.msg.Content = id, in.names[id], content
	return nil
}

func (in *reader) readOpaque(i int, v rawjson.Value, f object) error {
	p, err := readOpaque(v, inputItem(i))
	if err != nil {
		return err
	}
	if !wire.Opaque(&p) {
		return invalid(inputItem(i)+".type", "%s has the type %q, which is the type of a part", inputItem(i), p.Type)
	}
	role := f["role"].String()
	switch role {
	case abi.RoleSystem, abi.RoleDeveloper, abi.RoleUser:
	default:
		role = abi.RoleAssistant
	}
	in.begin(i, role, role == abi.RoleAssistant && in.isOpaque())
	in.parts = append(in.parts, p)
	in.span.opaque++
	return nil
}
