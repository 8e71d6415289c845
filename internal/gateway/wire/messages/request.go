package messages

import (
	"fmt"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// systemID is the ID of the message for the field system.
const systemID = "system"

// FieldThread is the field of a request that continues messages which the upstream stores.
const FieldThread = "thread"

// A request is a parsed request.
type request struct {
	body  []byte
	root  rawjson.Value
	list  rawjson.Value // messages
	tools rawjson.Value

	system   *container // nil if the request has none
	messages []*container
	among    bool        // instructions are among the messages
	listed   map[int]int // the indices in the call's tools of elements of tools
	sources  map[string]source
	call     wire.Call
}

// A source locates a message of the ABI in the request.
type source struct {
	from   *container
	result int // the index of a tool_result block, or -1
	role   string
}

// ParseRequest parses the body of a request.
func (Protocol) ParseRequest(body []byte) (wire.Request, error) {
	root, err := rawjson.Parse(body)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, "the body is not valid: %v", err)
	}
	if !root.IsObject() {
		return nil, wire.Errorf(wire.CodeInvalid, "the body must be a JSON object")
	}
	r := &request{body: body, root: root, sources: map[string]source{}}
	if err := r.parse(); err != nil {
		return nil, err.invalid()
	}
	return r, nil
}

// Call returns the request in the terms of the ABI.
func (r *request) Call() *wire.Call { return &r.call }

func (r *request) parse() *fieldError {
	var system rawjson.Value
	var other []rawjson.Member
	members := r.root.Members()
	if err := checkNames(members); err != nil {
		return err
	}
	for _, m := range members {
		switch m.Name {
		case "model":
			r.call.Model = m.Value.String()
		case "stream":
			if !m.Value.IsTrue() && !m.Value.IsNull() && string(m.Value.Text) != "false" {
				return problem("stream", "must be true or false")
			}
			r.call.Stream = m.Value.IsTrue()
		case "messages":
			r.list = m.Value
		case "system":
			system = m.Value
		case "tools":
			r.tools = m.Value
		case FieldThread:
			if !m.Value.IsNull() {
				return problem(FieldThread, "a thread's messages are stored at the upstream, where modules cannot see them; "+
					"send all messages without a thread")
			}
		default:
			other = append(other, m)
		}
	}
	if r.call.Model == "" {
		return problem("model", "must be a string that is not empty")
	}
	r.call.Params = params(other)
	p := &parser{maxBlocks: maxRequestBlocks, maxCalls: maxRequestCalls}
	if err := r.parseSystem(p, system); err != nil {
		return err
	}
	if err := r.parseMessages(p); err != nil {
		return err
	}
	return r.parseTools()
}

func (r *request) parseSystem(p *parser, v rawjson.Value) *fieldError {
	if v.IsNull() {
		return nil
	}
	c := &container{role: abi.RoleSystem}
	if err := p.content(c, v); err != nil {
		if err.path == "content" {
			err.path = ""
		}
		return err.in(systemID)
	}
	r.system = c
	r.addMessage(systemID, c)
	return nil
}

func (r *request) parseMessages(p *parser) *fieldError {
	if !r.list.IsArray() {
		return problem("messages", "must be an array")
	}
	elements := r.list.Elements()
	if len(elements) > maxRequestBlocks {
		return problem("messages", "there are too many messages")
	}
	names := map[string]string{} // of the tools of calls, by the call's ID
	for i, e := range elements {
		if err := r.parseMessage(p, i, e, names); err != nil {
			return err.in("messages." + strconv.Itoa(i))
		}
	}
	return nil
}

func (r *request) parseMessage(p *parser, i int, v rawjson.Value, names map[string]string) *fieldError {
	if !v.IsObject() {
		return problem("", "must be an object")
	}
	members := v.Members()
	if err := checkNames(members); err != nil {
		return err
	}
	c := &container{object: v, role: get(members, "role").String()}
	switch c.role {
	case abi.RoleUser, abi.RoleAssistant, abi.RoleSystem:
	default:
		return problem("role", `must be "user", "assistant" or "system"`)
	}
	if err := p.content(c, get(members, "content")); err != nil {
		return err
	}
	r.messages = append(r.messages, c)
	r.among = r.among || c.role == abi.RoleSystem
	id := "m" + strconv.Itoa(i)
	rest := len(c.blocks) == 0
	for k := range c.blocks {
		switch b := &c.blocks[k]; {
		case b.result != nil:
			r.addResult(id+"."+strconv.Itoa(k), c, k, names[b.callID])
			continue
		case b.call != nil:
			names[b.call.ID] = b.call.Function.Name
		}
		rest = true
	}
	if rest {
		r.addMessage(id, c)
	}
	return nil
}

// addMessage adds the message for those blocks of a container that are not results.
func (r *request) addMessage(id string, c *container) {
	parts, calls := c.parts()
	m := abi.Message{ID: id, Role: c.role, Content: c.abiContent(parts), ToolCalls: calls}
	r.call.Messages = append(r.call.Messages, m)
	r.sources[id] = source{from: c, result: -1, role: c.role}
}

// addResult adds the message for block k of a container, which is a result of a call of a tool.
func (r *request) addResult(id string, c *container, k int, tool string) {
	b := &c.blocks[k]
	parts, _ := b.result.parts()
	m := abi.ToolMessage(b.callID, tool, b.result.abiContent(parts))
	m.ID = id
	r.call.Messages = append(r.call.Messages, m)
	r.sources[id] = source{from: c, result: k, role: abi.RoleTool}
}

func (r *request) parseTools() *fieldError {
	if r.tools.IsNull() {
		return nil
	}
	if !r.tools.IsArray() {
		return problem("tools", "must be an array")
	}
	r.listed = map[int]int{}
	names := map[string]bool{}
	for i, v := range r.tools.Elements() {
		tool, ok, err := parseTool(v)
		if err != nil {
			return err.in("tools." + strconv.Itoa(i))
		}
		if !ok {
			continue
		}
		if names[tool.Name] {
			return problem("tools."+strconv.Itoa(i)+".name", fmt.Sprintf("two tools have the name %.64q", tool.Name))
		}
		names[tool.Name] = true
		r.listed[i] = len(r.call.Tools)
		r.call.Tools = append(r.call.Tools, tool)
	}
	return nil
}
