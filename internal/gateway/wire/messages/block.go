package messages

import (
	"fmt"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// A container is an object with content: a message, a result of a tool, or an answer. The container of
// the field system has no object.
type container struct {
	object  rawjson.Value
	content rawjson.Value
	role    string
	blocks  []block
}

// A block is an element of content, or content that is a string.
type block struct {
	raw    rawjson.Value
	part   abi.Part      // unless it is a call or a result
	call   *abi.ToolCall // of a block tool_use
	result *container    // of a block tool_result
	callID string        // of a block tool_result
}

// A parser parses the content of one request or answer.
type parser struct {
	maxBlocks, maxCalls int // that are left
}

// content parses v into the content of c. The caller has set the fields object and role of c.
func (p *parser) content(c *container, v rawjson.Value) *fieldError {
	c.content = v
	switch {
	case v.IsString():
		c.blocks = []block{{raw: v, part: abi.Part{Type: abi.PartText, Text: v.String()}}}
		p.maxBlocks--
	case v.IsArray():
		elements := v.Elements()
		if p.maxBlocks -= len(elements); p.maxBlocks < 0 {
			return problem("content", "there are too many blocks")
		}
		c.blocks = make([]block, 0, len(elements))
		for i, e := range elements {
			b, err := p.block(e, c.role)
			if err != nil {
				return err.in("content." + strconv.Itoa(i))
			}
			c.blocks = append(c.blocks, b)
		}
	case v.IsNull() && c.role == abi.RoleTool:
	default:
		return problem("content", "must be a string or an array of blocks")
	}
	return nil
}

// block parses a block of content with the given role.
func (p *parser) block(v rawjson.Value, role string) (block, *fieldError) {
	b := block{raw: v}
	if !v.IsObject() {
		return b, problem("", "must be an object")
	}
	members := v.Members()
	if err := checkNames(members); err != nil {
		return b, err
	}
	kind := get(members, "type").String()
	if kind == "" {
		return b, problem("type", "must be a string that is not empty")
	}
	var err *fieldError
	switch {
	case kind == typeToolUse && role == abi.RoleAssistant:
		b.call, err = p.call(members)
	case kind == typeToolResult && role == abi.RoleUser:
		err = p.result(&b, members)
	default:
		if p, ok := documentPart(kind, members); ok && role != abi.RoleAssistant {
			b.part = p
			return b, nil
		}
		b.part, err = partOf(kind, members)
	}
	return b, err
}

func (p *parser) call(members []rawjson.Member) (*abi.ToolCall, *fieldError) {
	if p.maxCalls--; p.maxCalls < 0 {
		return nil, problem("", "there are too many calls")
	}
	id, err := text(members, "id")
	if err != nil {
		return nil, err
	}
	name, err := text(members, "name")
	if err != nil {
		return nil, err
	}
	input := get(members, "input")
	if !input.IsObject() {
		return nil, problem("input", "must be an object")
	}
	call := abi.NewToolCall(id, name, string(input.Text))
	return &call, nil
}

func (p *parser) result(b *block, members []rawjson.Member) *fieldError {
	id, err := text(members, "tool_use_id")
	if err != nil {
		return err
	}
	b.callID = id
	b.result = &container{object: b.raw, role: abi.RoleTool}
	return p.content(b.result, get(members, "content"))
}

// get returns the value of a member, or the zero Value.
func get(members []rawjson.Member, name string) rawjson.Value {
	for i := range members {
		if members[i].Name == name {
			return members[i].Value
		}
	}
	return rawjson.Value{}
}

// text returns the value of a member that must be a string.
func text(members []rawjson.Member, name string) (string, *fieldError) {
	s := get(members, name).String()
	if s == "" {
		return "", problem(name, "must be a string that is not empty")
	}
	return s, nil
}

// parts returns the content of the blocks that are neither calls nor results, and the calls.
func (c *container) parts() (parts []abi.Part, calls []abi.ToolCall) {
	for i := range c.blocks {
		switch b := &c.blocks[i]; {
		case b.call != nil:
			calls = append(calls, *b.call)
		case b.result == nil:
			parts = append(parts, b.part)
		}
	}
	return parts, calls
}

// abiContent returns the content as a module sees it.
func (c *container) abiContent(parts []abi.Part) abi.Content {
	switch {
	case c.content.IsString():
		return abi.Text(parts[0].Text)
	case c.content.IsNull():
		return abi.Content{}
	}
	return abi.Parts(parts...)
}

// checkCallIDs rejects an answer with two calls of the same ID, since a gate could allow only one of
// them.
func (c *container) checkCallIDs() *fieldError {
	seen := map[string]bool{}
	for i := range c.blocks {
		call := c.blocks[i].call
		if call == nil {
			continue
		}
		if seen[call.ID] {
			return problem("content."+strconv.Itoa(i)+".id", fmt.Sprintf("two calls have the ID %.64q", call.ID))
		}
		seen[call.ID] = true
	}
	return nil
}
