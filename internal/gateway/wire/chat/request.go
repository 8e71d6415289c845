package chat

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A request is a parsed request. Its values share the memory of the body.
type request struct {
	body           []byte
	root           rawjson.Value
	messages       rawjson.Value
	messageList    []*message
	place          map[string]int // of messages, by ID
	tools          rawjson.Value
	toolList       []tool
	call           wire.Call
	newLimit       bool // max_completion_tokens limits the answer
	validExchanges bool // each call has its result, and each result its call
}

// ParseRequest parses the body of a request.
func (Protocol) ParseRequest(body []byte) (wire.Request, error) {
	v, err := rawjson.Parse(body)
	if err != nil {
		return nil, invalid("", "the request is not valid: %v", err)
	}
	if !v.IsObject() {
		return nil, invalid("", "the request must be a JSON object")
	}
	if next := withoutNestedCalls(body, v); len(next) != len(body) {
		body = next
		if v, err = rawjson.Parse(body); err != nil {
			return nil, invalid("", "the request is not valid: %v", err)
		}
	}
	r := &request{body: body, root: v, call: wire.Call{Params: abi.Params{}}}
	for _, m := range v.Members() {
		if err := r.readField(m.Name, m.Value); err != nil {
			return nil, err
		}
	}
	if r.call.Model == "" {
		return nil, invalid("model", "model must be the name of a model")
	}
	budget := maxItems
	if err := r.readMessages(&budget); err != nil {
		return nil, err
	}
	if err := r.readTools(&budget); err != nil {
		return nil, err
	}
	r.validExchanges = exchangeProblem(r.call.Messages) == ""
	return r, nil
}

// withoutNestedCalls returns the body of a request without tool_calls in parts of contents. The API has no
// such field, but @openai/agents repeats the calls of a message there, where modules would not see them.
func withoutNestedCalls(body []byte, root rawjson.Value) []byte {
	e := rawjson.Edits{Doc: body}
	for _, m := range root.Get("messages").Elements() {
		for _, part := range m.Get("content").Elements() {
			if part.Get("tool_calls").Exists() {
				e.Members(part, map[string][]byte{"tool_calls": nil})
			}
		}
	}
	return e.Apply()
}

func (r *request) readField(name string, v rawjson.Value) error {
	switch name {
	case "model":
		r.call.Model = v.String()
	case "stream":
		r.call.Stream = v.IsTrue()
	case "messages":
		r.messages = v
	case "tools":
		r.tools = v
	default:
		return r.readParam(name, v)
	}
	return nil
}

func (r *request) readMessages(budget *int) error {
	list := r.messages.Elements()
	if len(list) == 0 {
		return invalid("messages", "messages must be an array with at least one message")
	}
	if err := spend(budget, len(list)); err != nil {
		return invalid("messages", "the request has %v", err)
	}
	r.place = make(map[string]int, len(list))
	names := map[string]string{} // of tools, by the ID of the call
	for i, v := range list {
		param := "messages[" + strconv.Itoa(i) + "]"
		m, err := readMessage(v, budget)
		if err != nil {
			return invalid(param, "%s is not valid: %v", param, err)
		}
		if !knownRole(m.abi.Role) {
			return invalid(param+".role", "%s.role must be system, developer, user, assistant or tool", param)
		}
		m.abi.ID = "msg_" + strconv.Itoa(i+1)
		for _, c := range m.abi.ToolCalls {
			names[c.ID] = c.Function.Name
		}
		if m.abi.Role == abi.RoleTool && m.abi.Name == "" {
			m.abi.Name = names[m.abi.ToolCallID]
		}
		r.place[m.abi.ID] = i
		r.messageList = append(r.messageList, m)
		r.call.Messages = append(r.call.Messages, m.abi)
	}
	return nil
}

// Call returns the request in the terms of the ABI.
func (r *request) Call() *wire.Call { return &r.call }

// Encode returns the body to send for the changed call next.
func (r *request) Encode(next *wire.Call) ([]byte, error) {
	change := map[string][]byte{}
	if next.Model != r.call.Model {
		change["model"] = rawjson.Quote(next.Model)
	}
	if next.Stream != r.call.Stream {
		change["stream"] = strconv.AppendBool(nil, next.Stream)
	}
	if err := r.editParams(next.Params, change); err != nil {
		return nil, err
	}
	if err := r.editTools(next, change); err != nil {
		return nil, err
	}
	messages, err := r.editMessages(next.Messages)
	if err != nil {
		return nil, err
	}
	if messages != nil {
		change["messages"] = messages
	}
	e := rawjson.Edits{Doc: r.body}
	e.Members(r.root, change)
	return e.Apply(), nil
}

// editMessages returns the messages of the request, or nil if they are unchanged.
func (r *request) editMessages(next []abi.Message) ([]byte, error) {
	e := rawjson.Edits{Doc: r.messages.Text}
	inPlace := len(next) == len(r.messageList)
	list := make([][]byte, len(next))
	seen := make(map[string]bool, len(next))
	for i := range next {
		m := &next[i]
		if m.ID != "" && seen[m.ID] {
			return nil, moduleError("two messages have the ID %.100q", m.ID)
		}
		seen[m.ID] = true
		at, known := r.place[m.ID]
		inPlace = inPlace && known && at == i
		if !known {
			text, err := encodeMessage(m)
			if err != nil {
				return nil, err
			}
			list[i] = text
			continue
		}
		was := r.messageList[at]
		list[i] = was.raw.Text
		if reflect.DeepEqual(m, &r.call.Messages[at]) {
			continue
		}
		text, err := was.edit(m)
		if err != nil {
			return nil, err
		}
		if list[i] = text; inPlace && !bytes.Equal(text, was.raw.Text) {
			e.Replace(relative(was.raw, r.messages), text)
		}
	}
	if inPlace && !e.Changed() {
		return nil, nil
	}
	if problem := exchangeProblem(next); problem != "" && r.validExchanges {
		return nil, moduleError("after the changes of modules, %s", problem)
	}
	if inPlace {
		return e.Apply(), nil
	}
	return rawjson.Array(list), nil
}

// exchangeProblem returns a description of how messages break the API's rule for tool calls, or "":
// after a message with calls there must be one result for each call before any other message.
func exchangeProblem(messages []abi.Message) string {
	if len(messages) == 0 {
		return "the request has no messages"
	}
	open := map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if m.Role == abi.RoleTool {
			if !open[m.ToolCallID] {
				return fmt.Sprintf("the tool result for %.100q does not follow its call", m.ToolCallID)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			break
		}
		for j := range m.ToolCalls {
			open[m.ToolCalls[j].ID] = true
		}
	}
	for id := range open {
		return fmt.Sprintf("the tool call %.100q has no result", id)
	}
	return ""
}
